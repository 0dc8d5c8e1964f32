#!lua
-- Add jobs that have no constraints, all or none; atomic, so that a job is in the index exactly if it is in a place.
-- KEYS: ready level levels jobs scheduled parked dead result due_channel control_channel events facts minute sessions
-- ARGV: events:int group may_exist:bool facts:bytes counts:bytes, then *jobs, for each: job_id when envelope
-- Returns list[int]: the positions, from 1, of jobs that were known already and are left as they are.

-- when: '' now, '+ms' that long from now, '@ms' at that time.
local most, group, may_exist = tonumber(ARGV[1]), ARGV[2], ARGV[3] == '1'
local HEAD, EACH = 5, 3
local count = (#ARGV - HEAD) / EACH

-- The streams and the labels of other runners than the loop, by the format of their envelopes.
local streams, labels = {[1] = key.ready}, {}
local kinds = {[key.ready] = 'stream', [key.events] = 'stream'}
for i = HEAD + 2, #ARGV, EACH do
  if ARGV[i] ~= '' then
    kinds[key.scheduled], kinds[key.parked] = 'zset', 'hash'
  end
  local format = string.byte(ARGV[i + 1], 2)
  if (format == 2 or format == 3) and not labels[format] then
    labels[format] = runner_label(ARGV[i + 1])
    streams[format] = key.level .. labels[format]
    kinds[streams[format]], kinds[key.levels] = 'stream', 'zset'
  end
end
local wrong = wrong_type(kinds)
if wrong then
  return wrong
end

local apart, levels_changed, prefixes = next(labels) ~= nil, false, {}
for format, label in pairs(labels) do
  levels_changed = use_level(label, 0, group) or levels_changed
  prefixes[format] = label .. '/'
end
local function add(envelope)
  local format = apart and string.byte(envelope, 2)
  local prefix = prefixes[format]
  if not prefix then
    return redis.call('XADD', key.ready, '*', 'j', envelope)
  end
  return prefix .. redis.call('XADD', streams[format], '*', 'j', envelope)
end

local function first_due()
  return redis.call('ZRANGE', key.scheduled, 0, 0, 'WITHSCORES')[2]
end

local now, earliest
local function schedule(job_id, when, envelope)
  if not now then
    now, earliest = now_ms(), first_due()
  end
  local due = due_at(when, now)
  if due <= now then
    return add(envelope)
  end
  redis.call('ZADD', key.scheduled, string.format('%d', due), job_id)
  redis.call('HSET', key.parked, job_id, '0:' .. envelope)
  return 's'
end

local job_ids, places = {}, {}
for i = 1, count do
  job_ids[i] = ARGV[HEAD + (i - 1) * EACH + 1]
end
get_places(key.jobs, job_ids, places)

-- A place does not count if someone deleted what should be there.
local function is_there(job_id, place)
  if not may_exist then
    return true
  elseif is_entry(place) then
    local stream, id = entry_in(place)
    return #redis.call('XRANGE', stream, id, id) > 0
  elseif string.find(place, '^d%d+%-%d+$') then
    return #redis.call('XRANGE', key.dead, string.sub(place, 2), string.sub(place, 2)) > 0
  end
  return not string.find(place, '^[sSkgf]') or redis.call('HEXISTS', key.parked, job_id) == 1
end

local known, lost, seen, index, made = {}, {}, {}, {}, {}

-- The sender has counted all of them as sent.
local function uncount(envelope)
  local name = 'sent ' .. task_of(envelope)
  made[name] = (made[name] or 0) - 1
end

for i = 1, count do
  local job_id = job_ids[i]
  local known_at = places[job_id]
  if (known_at and is_there(job_id, known_at)) or (may_exist and (seen[job_id] or redis.call('EXISTS', key.result .. job_id) == 1)) then
    known[#known + 1] = i
    lost[#lost + 1] = job_id
    uncount(ARGV[HEAD + i * EACH])
  else
    local when, envelope = ARGV[HEAD + (i - 1) * EACH + 2], ARGV[HEAD + i * EACH]
    local place
    if when == '' then
      place = add(envelope)
    else
      place = schedule(job_id, when, envelope)
    end
    seen[job_id] = true
    index[#index + 1] = job_id
    index[#index + 1] = place
  end
end
set_places(key.jobs, index)
if now and first_due() ~= earliest then
  redis.call('PUBLISH', key.due_channel, '')
end
if levels_changed then
  redis.call('PUBLISH', key.control_channel, '')
end
if count == 1 then
  record(most, 1 - #lost, {}, {}, ARGV[5], made, ARGV[4], job_ids[1])
else
  record(most, count, {ARGV[4]}, lost, ARGV[5], made)
end
return applied(known)
