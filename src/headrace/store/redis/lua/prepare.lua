#!lua flags=allow-oom
-- See to it that the consumer group exists; atomic with the epoch, because a group made anew hands out again what others hold.
-- KEYS: ready epoch
-- ARGV: group
-- Returns the epoch.

local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if made.err then
  if string.sub(made.err, 1, 9) ~= 'BUSYGROUP' then
    return made
  end
else
  redis.call('INCR', KEYS[2])
end
return redis.call('GET', KEYS[2]) or '0'
