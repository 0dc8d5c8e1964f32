#!lua flags=allow-oom
-- Create missing consumer groups; atomic with the epoch, because a group that is created again hands out what others hold.
-- KEYS: ready level levels epoch paused log groups counted disbanded facts
-- ARGV: group returned member:str
-- Returns tuple[int, list[bytes], list[bytes], int, int, *tuple[bytes, ...]]: {epoch, levels, returned, paused, waiting, odd…}: the state for a reader; `returned` are the labels of streams in which something was handed back, or a batch waits, `waiting` counts the jobs that wait in `ready`, `odd` are keys that are not of their types.

-- member: 'ordered on_failure' of the group of a topic, '' for an ordinary queue.
local SEEN_EVERY = 10000
local group, returned, member = ARGV[1], ARGV[2], ARGV[3]

local function make_group(stream)
  local answer = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
  if not answer.err then
    next_epoch()
  elseif string.sub(answer.err, 1, 9) ~= 'BUSYGROUP' then
    return answer
  end
end

local function be_seen()
  local now = now_ms()
  local record, seen = string.match(redis.call('HGET', key.groups, group) or '', '^(.*) (%d+)$')
  if record ~= member or now - tonumber(seen) > SEEN_EVERY then
    redis.call('HSET', key.groups, group, member .. ' ' .. string.format('%d', now))
    set_count(key.log, group)
  end
end

-- Keys whose values are passed over or replaced: they are logged.
local function odd_keys()
  local odd = {}
  for _, name in ipairs({key.epoch, key.facts}) do
    local value = redis.call('GET', name)
    if value and not string.find(value, '^%-?%d+$') then
      odd[#odd + 1] = name
    end
  end
  if redis.call('ZCARD', key.levels) > #levels_in(key.levels) then
    odd[#odd + 1] = key.levels
  end
  return odd
end

local odd, levels = odd_keys(), levels_in(key.levels)
local streams = {key.ready}
local labels = {[key.ready] = ''}
for _, level in ipairs(levels) do
  streams[#streams + 1] = key.level .. level
  labels[key.level .. level] = level
end
if member ~= '' then
  if redis.call('EXISTS', key.disbanded) == 1 then
    -- Keep this as long as a worker might create the group again.
    redis.call('EXPIRE', key.disbanded, 3600)
    return {0, levels, {}, 1, 0, unpack(odd)}
  end
  streams[#streams + 1] = key.log
  labels[key.log] = '@'
  be_seen()
end

-- Batches are read by `fetch` alone, which is to be asked while there are any.
local function has_batch(stream)
  local info = string.sub(labels[stream], 1, 1) == 'b' and group_info(stream, group)
  return info and #redis.call('XRANGE', stream, '(' .. info.last, '+', 'COUNT', 1) > 0
end

local back = {}
for _, stream in ipairs(streams) do
  local trouble = make_group(stream)
  if trouble then
    return trouble
  elseif #redis.call('XPENDING', stream, group, '-', '+', 1, returned) > 0 or has_batch(stream) then
    back[#back + 1] = labels[stream]
  end
end
local waiting = 0
if member ~= '' then
  waiting = redis.call('XLEN', key.ready) - redis.call('XPENDING', key.ready, group)[1]
end
return {tonumber(epoch_now()), levels, back, redis.call('SISMEMBER', key.paused, ''), waiting, unpack(odd)}
