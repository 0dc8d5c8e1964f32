#!lua flags=no-writes
-- Whether the ends of parents have arrived at blocked jobs; atomic, so that all answers are of one moment.
-- KEYS: flow
-- ARGV: *pairs:bytes, for each: the ids of a job and of one that it waits for
-- Returns list[int]: for each pair 1 if it has arrived, 0 otherwise.

local arrived = {}
for i = 1, #ARGV, 2 do
  arrived[#arrived + 1] = redis.call('HEXISTS', key.flow .. ARGV[i], ARGV[i + 1])
end
return arrived
