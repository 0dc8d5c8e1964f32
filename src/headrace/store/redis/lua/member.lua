#!lua flags=no-writes
-- Tell how a group of a topic is doing; atomic, so that its figures fit together.
-- KEYS: ready log log_jobs stopped
-- ARGV: group
-- Returns {behind, oldest, stopped}: `oldest` is when the oldest event was added that it has not settled, 0 if there is none.

local function first_ms(entry)
  return entry and tonumber(string.match(entry[1], '^%d+'))
end

local info, oldest = group_info(key.log, ARGV[1]), nil
if info then
  oldest = first_ms(redis.call('XPENDING', key.log, ARGV[1], '-', '+', 1)[1])
    or first_ms(redis.call('XRANGE', key.log, '(' .. info.last, '+', 'COUNT', 1)[1])
end
-- Of those in the group's own queue the first, by when it came into the log if that still has it.
local first = redis.call('XRANGE', key.ready, '-', '+', 'COUNT', 1)[1]
local at = first and redis.call('HGET', key.log_jobs, key_of(field(first[2], 'j')))
local retried = first_ms(at and {at} or first)
if retried and (not oldest or retried < oldest) then
  oldest = retried
end
return {behind(key.log, ARGV[1]), oldest or 0, redis.call('HLEN', key.stopped)}
