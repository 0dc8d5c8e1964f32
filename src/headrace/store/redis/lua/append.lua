#!lua
-- Add jobs, all or none; atomic, so that a job is in the index exactly if it is in a place.
-- KEYS: ready jobs scheduled parked
-- ARGV: check result due_channel, then for each job: key when envelope
-- Returns the positions, from 1, of jobs that were known already and are left as they are.

-- when: '' now, '+ms' so long from now, '@ms' at that time.
local check, result, due_channel = ARGV[1] == '1', ARGV[2], ARGV[3]
local HEAD, EACH = 3, 3
local count = (#ARGV - HEAD) / EACH

local kinds = {[KEYS[1]] = 'stream', [KEYS[2]] = 'hash'}
for i = HEAD + 2, #ARGV, EACH do
  if ARGV[i] ~= '' then
    kinds[KEYS[3]], kinds[KEYS[4]] = 'zset', 'hash'
    break
  end
end
local wrong = wrong_type(kinds)
if wrong then
  return wrong
end

local now, earliest
local function schedule(key, when, envelope)
  if not now then
    now, earliest = now_ms(), first_due(KEYS[3])
  end
  local due = tonumber(string.sub(when, 2))
  if string.sub(when, 1, 1) == '+' then
    -- One more: `now` has lost its fraction, and a job must never start early.
    due = now + due + 1
  end
  if due <= now then
    return redis.call('XADD', KEYS[1], '*', 'j', envelope)
  end
  redis.call('ZADD', KEYS[3], string.format('%d', due), key)
  redis.call('HSET', KEYS[4], key, '0:' .. envelope)
  return 's'
end

local keys = {}
for i = 1, count do
  keys[i] = ARGV[HEAD + (i - 1) * EACH + 1]
end
local places = redis.call('HMGET', KEYS[2], unpack(keys))

-- A place in a stream that someone deleted is no place.
local function is_there(place)
  return not check or not string.find(place, '^%d') or #redis.call('XRANGE', KEYS[1], place, place) > 0
end

local known, seen, index = {}, {}, {}
for i = 1, count do
  local key = keys[i]
  if (places[i] and is_there(places[i])) or (check and (seen[key] or redis.call('EXISTS', result .. key) == 1)) then
    known[#known + 1] = i
  else
    local when, envelope = ARGV[HEAD + (i - 1) * EACH + 2], ARGV[HEAD + i * EACH]
    local place
    if when == '' then
      place = redis.call('XADD', KEYS[1], '*', 'j', envelope)
    else
      place = schedule(key, when, envelope)
    end
    seen[key] = true
    index[#index + 1] = key
    index[#index + 1] = place
  end
end
if #index > 0 then
  redis.call('HSET', KEYS[2], unpack(index))
end
if now and first_due(KEYS[3]) ~= earliest then
  redis.call('PUBLISH', due_channel, '')
end
return known
