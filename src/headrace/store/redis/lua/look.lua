#!lua flags=no-writes
-- Tell where jobs are; atomic, so that a job on its way between two places is seen in one of them.
-- KEYS: ready jobs scheduled parked dead
-- ARGV: group returned result bodies, then the job keys
-- Returns for each job {state, due, worker, deliveries, reason, envelope, past, verdict}; state is '' if it is in no place.

local group, returned, result, bodies = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local function field(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then
      return fields[i + 1]
    end
  end
  return ''
end

local function in_stream(stream, id)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  return entry and entry[2] or {}
end

local function scheduled(key)
  local sight = {'scheduled', redis.call('ZSCORE', KEYS[3], key) or '0', '', 0, '', '', ''}
  local body = bodies and redis.call('HGET', KEYS[4], key)
  if body then
    sight[7], sight[6] = unparked(body)
  end
  return sight
end

local function dead(id)
  local fields = in_stream(KEYS[5], id)
  local sight = {'dead', '0', '', 0, field(fields, 'r'), '', ''}
  if bodies then
    sight[6], sight[7] = field(fields, 'j'), field(fields, 'h')
  end
  return sight
end

local function ready(id)
  local fields = in_stream(KEYS[1], id)
  if #fields == 0 then
    -- Someone deleted the stream: the index remembers a job that is gone.
    return {'', '0', '', 0, '', '', ''}
  end
  local sight = {'waiting', '0', '', 0, '', '', ''}
  local pending = redis.pcall('XPENDING', KEYS[1], group, id, id, 1)
  if not pending.err and pending[1] then
    sight[4] = pending[1][4]
    if pending[1][2] ~= returned then
      sight[1], sight[3] = 'running', pending[1][2]
    end
  end
  if bodies then
    sight[6], sight[7] = field(fields, 'j'), field(fields, 'h')
  end
  return sight
end

local sights = {}
for i = 5, #ARGV do
  local key = ARGV[i]
  local place = redis.call('HGET', KEYS[2], key)
  local sight = {'', '0', '', 0, '', '', ''}
  if place == 's' then
    sight = scheduled(key)
  elseif place and string.sub(place, 1, 1) == 'd' then
    sight = dead(string.sub(place, 2))
  elseif place then
    sight = ready(place)
  end
  sight[8] = redis.call('GET', result .. key) or ''
  sights[#sights + 1] = sight
end
return sights
