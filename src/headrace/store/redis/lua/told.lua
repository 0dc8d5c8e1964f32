#!lua flags=no-writes
-- Whether jobs that wait for others were told that these have ended; atomic, so that all is of one moment.
-- KEYS: flow
-- ARGV: the keys of each job and of one that it waits for
-- Returns for each pair 1 if it was told, 0 otherwise.

local told = {}
for i = 1, #ARGV, 2 do
  told[#told + 1] = redis.call('HEXISTS', key.flow .. ARGV[i], ARGV[i + 1])
end
return told
