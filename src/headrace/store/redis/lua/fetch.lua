#!lua flags=allow-oom
-- Read a queue that has priorities, batches, jobs that were handed back, or a bound on how many run; atomic, so that no job is read while one waits that goes before it, never one too many, and a batch as a whole.
-- KEYS: ready level levels log reclaims
-- ARGV: group returned consumer:str limit:int loop:int thread:int process:int turn:int returns:bool crash_limit:int fresh:bool most:int
-- Returns tuple[list[Any], list[int], list[bytes], list[bytes]]: {entries, counts, returned, ends}: the entries, as {receipt, fields}; in the same order how often each was delivered; the labels of streams in which something handed back, or a batch, is left; and if `most` is given, there is room, and nothing was read, for each stream its label and the last id that was read.

-- loop, thread, process: how many of each runner, where a batch counts as one. turn: which of them is first where priorities are equal.
-- returns: whether anything may have been handed back. fresh: whether to read what was not. most: how many jobs of
-- the queue may be leased at a time, 0 for any number.
local group, returned, consumer, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local room = {[''] = tonumber(ARGV[5]), t = tonumber(ARGV[6]), p = tonumber(ARGV[7])}
local turn, returns, crash_limit, fresh = tonumber(ARGV[8]), ARGV[9] == '1', tonumber(ARGV[10]), ARGV[11] == '1'
local most = tonumber(ARGV[12])
local RUNNERS = {'', 't', 'p', 'b', 'bt', 'bp'}
local entries, counts, behind = {}, {}, {}

local function add(runner, prefix, entry, count)
  entries[#entries + 1] = {prefix .. entry[1], entry[2]}
  counts[#counts + 1] = count
  left, room[runner] = left - 1, room[runner] - 1
end

-- One more crash and the job is dead: such a job is left to `reclaim`, which gives a worker one at a time.
local function take_back(runner, label, stream, prefix)
  local ids, delivered = {}, {}
  local most = math.max(0, math.min(left, room[runner]))
  for _, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', most + 20, returned)) do
    if pending[4] < crash_limit - 1 then
      if #ids >= most then
        behind[#behind + 1] = label
        break
      end
      ids[#ids + 1] = pending[1]
      delivered[pending[1]] = pending[4] + 1
    end
  end
  for _, entry in ipairs(#ids > 0 and redis.call('XCLAIM', stream, group, consumer, 0, unpack(ids)) or {}) do
    add(runner, prefix, entry, delivered[entry[1]])
  end
end

local function take(runner, label, stream, prefix)
  if returns then
    take_back(runner, label, stream, prefix)
  end
  local count = math.min(left, room[runner])
  local reply = fresh and count > 0
    and redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', stream, '>')
  for _, entry in ipairs(reply and reply[1][2] or {}) do
    add(runner, prefix, entry, 1)
  end
end

local function batch_at(stream, id)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  return entry and field(entry[2], 'b') or ''
end

-- Whole batches that were handed back. Their jobs follow each other.
local function take_back_batches(runner, label, stream, prefix)
  local ids, delivered, last = {}, {}, nil
  for _, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', 1000, returned)) do
    local batch = pending[4] < crash_limit - 1 and batch_at(stream, pending[1])
    if batch and batch ~= last then
      if math.min(left, room[runner]) <= 0 then
        behind[#behind + 1] = label
        break
      end
      last, left, room[runner] = batch, left - 1, room[runner] - 1
    end
    if batch then
      ids[#ids + 1], delivered[pending[1]] = pending[1], pending[4] + 1
    end
  end
  for _, entry in ipairs(#ids > 0 and redis.call('XCLAIM', stream, group, consumer, 0, unpack(ids)) or {}) do
    entries[#entries + 1], counts[#counts + 1] = {prefix .. entry[1], entry[2]}, delivered[entry[1]]
  end
end

-- How many of the next entries of a stream are one batch: some may be cancelled, so its size is looked up.
local function next_batch(stream)
  local info = group_info(stream, group)
  local from = info and '(' .. info.last or '-'
  local first = redis.call('XRANGE', stream, from, '+', 'COUNT', 1)[1]
  local batch, count = first and field(first[2], 'b'), 0
  local size = batch and tonumber(string.match(batch, '^%d+'))
  for _, entry in ipairs(first and redis.call('XRANGE', stream, from, '+', 'COUNT', size or 1) or {}) do
    if field(entry[2], 'b') ~= batch then
      break
    end
    count = count + 1
  end
  return count
end

local function take_batches(runner, label, stream, prefix)
  if returns then
    take_back_batches(runner, label, stream, prefix)
  end
  local size = fresh and next_batch(stream) or 0
  while size > 0 do
    if math.min(left, room[runner]) <= 0 then
      behind[#behind + 1] = label
      break
    end
    left, room[runner] = left - 1, room[runner] - 1
    local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', size, 'STREAMS', stream, '>')
    for _, entry in ipairs(reply and reply[1][2] or {}) do
      entries[#entries + 1], counts[#counts + 1] = {prefix .. entry[1], entry[2]}, 1
    end
    size = next_batch(stream)
  end
end

local free = most
if most > 0 then
  free = free - leased_in(key.ready, group, returned)
  for _, label in ipairs(levels_in(key.levels)) do
    free = free - leased_in(key.level .. label, group, returned)
  end
  left = math.max(0, math.min(left, free))
end

local in_use, priorities = {}, {}
for _, label in ipairs(levels_in(key.levels)) do
  local priority = string.match(label, '%d*$')
  if priority ~= '' and priorities[#priorities] ~= priority then
    priorities[#priorities + 1] = priority
  end
  in_use[label] = true
end
priorities[#priorities + 1] = ''
for _, priority in ipairs(priorities) do
  for i = 0, #RUNNERS - 1 do
    local runner = RUNNERS[(turn + i) % #RUNNERS + 1]
    local label = runner .. priority
    if label == '' then
      take('', '', key.ready, '')
    elseif in_use[label] and string.sub(runner, 1, 1) == 'b' then
      take_batches(string.sub(runner, 2), label, key.level .. label, label .. '/')
    elseif in_use[label] then
      take(runner, label, key.level .. label, label .. '/')
    end
  end
end
if returns and key.log ~= key.ready then
  take_back('', '@', key.log, '@/')
end
local ends = {}
local function add_end(label, info)
  ends[#ends + 1] = label
  ends[#ends + 1] = info and info.last or '0-0'
end
if most > 0 and free <= #entries then
  -- The next job that ends notifies workers, which wait for that.
  redis.call('HSET', key.reclaims, 'full', '1')
  redis.call('EXPIRE', key.reclaims, 86400)
elseif most > 0 and #entries == 0 then
  add_end('', group_info(key.ready, group))
  for _, label in ipairs(levels_in(key.levels)) do
    add_end(label, group_info(key.level .. label, group))
  end
end
return {entries, counts, behind, ends}
