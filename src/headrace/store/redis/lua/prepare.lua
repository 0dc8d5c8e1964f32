#!lua flags=allow-oom
-- See to it that the consumer groups exist; atomic with the epoch, because a group made anew hands out again what others hold.
-- KEYS: ready level levels epoch paused
-- ARGV: group
-- Returns {epoch, levels, paused}: what a reader must know.

local levels = redis.call('ZREVRANGE', key.levels, 0, -1)
local streams = {key.ready}
for _, level in ipairs(levels) do
  streams[#streams + 1] = key.level .. level
end
for _, stream in ipairs(streams) do
  local made = redis.pcall('XGROUP', 'CREATE', stream, ARGV[1], '0', 'MKSTREAM')
  if not made.err then
    redis.call('INCR', key.epoch)
  elseif string.sub(made.err, 1, 9) ~= 'BUSYGROUP' then
    return made
  end
end
return {tonumber(redis.call('GET', key.epoch) or '0'), levels, redis.call('SISMEMBER', key.paused, '')}
