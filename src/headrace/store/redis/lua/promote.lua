#!lua flags=allow-oom
-- Make due jobs ready; atomic, so that a job is never in two places or none, and by the server's clock, so that it is never early.
-- KEYS: ready jobs scheduled parked promoter
-- ARGV: consumer limit ticket
-- Returns {moved, wait}: `wait` in ms until there is something to do here, 0 for at once, -1 if nothing is scheduled.

local holder = redis.call('GET', KEYS[5])
if holder and holder ~= ARGV[1] then
  return {0, math.max(redis.call('PTTL', KEYS[5]), 1)}
end

local now = now_ms()
local limit = tonumber(ARGV[2])
local due = redis.call('ZRANGE', KEYS[3], '-inf', string.format('%d', now), 'BYSCORE', 'LIMIT', 0, limit)
if #due > 0 then
  local wrong = wrong_type({[KEYS[1]] = 'stream', [KEYS[2]] = 'hash'})
  if wrong then
    return wrong
  end
  local bodies = redis.call('HMGET', KEYS[4], unpack(due))
  local index = {}
  for i, key in ipairs(due) do
    local body = bodies[i]
    if body then
      local past, envelope = unparked(body)
      local place
      if past == '' then
        place = redis.call('XADD', KEYS[1], '*', 'j', envelope)
      else
        place = redis.call('XADD', KEYS[1], '*', 'j', envelope, 'h', past)
      end
      index[#index + 1] = key
      index[#index + 1] = place
    end
  end
  if #index > 0 then
    redis.call('HSET', KEYS[2], unpack(index))
  end
  redis.call('ZREM', KEYS[3], unpack(due))
  redis.call('HDEL', KEYS[4], unpack(due))
end

local first = first_due(KEYS[3])
if not first then
  return {#due, -1}
end
redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[3])
return {#due, math.max(tonumber(first) - now, 0)}
