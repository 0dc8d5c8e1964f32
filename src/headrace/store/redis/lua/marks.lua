#!lua flags=no-writes
-- What was noted with a job; atomic, as one value that is read and taken apart.
-- KEYS: marks
-- ARGV: job
-- Returns names and values in turn.

local found, marks = {}, redis.call('HGET', key.marks, ARGV[1])
for name, value in pairs(marks and cmsgpack.unpack(marks) or {}) do
  found[#found + 1] = name
  found[#found + 1] = value
end
return found
