#!lua
-- Add events to a log, in their order, as many as there is room for; atomic, so that an event is in the index exactly if it is in the log.
-- KEYS: ready jobs scheduled parked groups due_channel events facts minute sessions
-- ARGV: events:int queue may_exist:bool most:int drops:int gone:int each:int, then *parcels, for each event: envelope when constraints key
-- Returns list[int]: {taken, dropped, position…}: the positions, from 1, of events that were known already; negative, of new ones that were dropped.

-- most: how many the log may hold, 0 for any number; drops: 1 if the oldest make room, settled or not, 2 if the newest are dropped.
-- when: '' now, '+ms' that long from now, '@ms' at that time. each: 1 if there are only envelopes,
-- which have the ids in them, as is most common.
local may_exist, most, drops, drops_newest = ARGV[3] == '1', tonumber(ARGV[4]), ARGV[5] == '1', ARGV[5] == '2'
local HEAD, EACH = 7, tonumber(ARGV[7])
local count = (#ARGV - HEAD) / EACH
local is_plain = EACH == 1

local function event_at(i)
  local at = HEAD + (i - 1) * EACH
  local envelope = ARGV[at + 1]
  if is_plain then
    return string.sub(envelope, 5, 4 + string.byte(envelope, 4)), envelope, '', ''
  end
  return ARGV[at + 4], envelope, ARGV[at + 2], ARGV[at + 3]
end

local wrong = wrong_type({[key.ready] = 'stream', [key.scheduled] = 'zset', [key.parked] = 'hash'})
if wrong then
  return wrong
end

local places = {}
if may_exist then
  local job_ids = {}
  for i = 1, count do
    job_ids[i] = (event_at(i))
  end
  get_places(key.jobs, job_ids, places)
end

local dropped, room, is_missed = 0, math.huge, true
if most > 0 then
  room = most - redis.call('XLEN', key.ready)
  if room < count then
    local needed = first_needed_of(key.ready, now_ms() - tonumber(ARGV[6]), {})
    if not needed then
      -- There are no groups: nobody needs the dropped events.
      drops, is_missed = true, false
    end
    room = room + drop_events(key.ready, math.min(count - room, count + 2000), needed)
  end
  room = drops and math.huge or room
end

local now, earliest
local function schedule(event, when, envelope, constraints)
  if not now then
    now, earliest = now_ms(), redis.call('ZRANGE', key.scheduled, 0, 0, 'WITHSCORES')[2]
  end
  local due = due_at(when, now)
  if due <= now then
    return nil
  end
  redis.call('ZADD', key.scheduled, string.format('%d', due), event)
  redis.call('HSET', key.parked, event, '0,' .. #constraints .. ',0:' .. constraints .. envelope)
  return 's'
end

local function add(envelope, constraints)
  if constraints == '' then
    return redis.call('XADD', key.ready, '*', 'j', envelope)
  end
  return redis.call('XADD', key.ready, '*', 'j', envelope, 't', constraints)
end

-- A place does not count if someone deleted what should be there.
local function is_there(event, place)
  if string.find(place, '^%d+%-%d+$') then
    return #redis.call('XRANGE', key.ready, place, place) > 0
  end
  return redis.call('HEXISTS', key.parked, event) == 1
end

local known, index, seen, taken = {}, {}, {}, count

-- Events that are new, due and have room: nearly all.
local function add_all()
  local log = key.ready
  for i = 1, count do
    local envelope = ARGV[HEAD + i]
    index[2 * i - 1] = string.sub(envelope, 5, 4 + string.byte(envelope, 4))
    index[2 * i] = redis.call('XADD', log, '*', 'j', envelope)
  end
end

local are_simple = is_plain and not may_exist and room == math.huge
if are_simple then
  add_all()
end
for i = 1, are_simple and 0 or count do
  local event, envelope, when, constraints = event_at(i)
  if (places[event] and is_there(event, places[event])) or (may_exist and seen[event]) then
    known[#known + 1] = i
  else
    local place = when ~= '' and schedule(event, when, envelope, constraints)
    if not place and room >= 1 then
      place = add(envelope, constraints)
      room = room - 1
    end
    if place then
      seen[event] = may_exist
      index[#index + 1] = event
      index[#index + 1] = place
    elseif drops_newest then
      known[#known + 1] = -i
      dropped = dropped + 1
    else
      taken = i - 1
      break
    end
  end
end
set_places(key.jobs, index)
if drops and most > 0 then
  -- After the bound was lowered, some thousands at a time.
  dropped = drop_events(key.ready, math.min(redis.call('XLEN', key.ready) - most, count + 2000))
  dropped = is_missed and dropped or 0
end
if now and redis.call('ZRANGE', key.scheduled, 0, 0, 'WITHSCORES')[2] ~= earliest then
  redis.call('PUBLISH', key.due_channel, '')
end
-- Counted by topic, for all shards together.
local topic = string.match(ARGV[2], '^[^#]+')
record(tonumber(ARGV[1]), 0, {}, {}, '', {
  ['sent ' .. topic] = #index > 0 and #index / 2 or nil,
  ['dropped ' .. topic] = dropped > 0 and dropped or nil,
})
return applied({taken, dropped, unpack(known)})
