#!lua flags=no-writes
-- What a job has done once; atomic, as a read of one value.
-- KEYS: once
-- ARGV: job:bytes
-- Returns list[bytes]: names and values in turn.

local found = {}
for name, value in pairs(once_in(redis.call('HGET', key.once, ARGV[1]))) do
  found[#found + 1] = name
  found[#found + 1] = value
end
return found
