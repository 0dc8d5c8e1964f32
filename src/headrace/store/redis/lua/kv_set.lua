#!lua
-- Keep a small value under a name; atomic, so that it is compared and changed in one step.
-- KEYS: values expiry changed_channel sessions
-- ARGV: name:str compare:str expected:bytes remove:bool value:bytes ttl:str
-- Returns int: 1 if that was done.

local name, compare = ARGV[1], ARGV[2]
for _, gone in ipairs(redis.call('ZRANGE', key.expiry, '-inf', string.format('%d', now_ms()), 'BYSCORE', 'LIMIT', 0, 100)) do
  redis.call('HDEL', key.values, gone)
  redis.call('ZREM', key.expiry, gone)
end
local until_ms = redis.call('ZSCORE', key.expiry, name)
local there = not (until_ms and tonumber(until_ms) <= now_ms()) and redis.call('HGET', key.values, name)
if (compare == 'absent' and there) or (compare == 'equal' and there ~= ARGV[3]) then
  return applied(0)
end
redis.call('ZREM', key.expiry, name)
if ARGV[4] == '1' then
  redis.call('HDEL', key.values, name)
else
  redis.call('HSET', key.values, name, ARGV[5])
end
if ARGV[6] ~= '' then
  redis.call('ZADD', key.expiry, string.format('%d', now_ms() + ARGV[6]), name)
else
  redis.call('PUBLISH', key.changed_channel, '')
end
-- If all values expire, so do the keys, with the last of them.
if redis.call('ZCARD', key.expiry) == redis.call('HLEN', key.values) then
  local last = redis.call('ZRANGE', key.expiry, -1, -1, 'WITHSCORES')[2] or 0
  redis.call('PEXPIREAT', key.values, last)
  redis.call('PEXPIREAT', key.expiry, last)
else
  redis.call('PERSIST', key.values)
  redis.call('PERSIST', key.expiry)
end
return applied(1)
