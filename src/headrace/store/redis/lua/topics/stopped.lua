#!lua flags=no-writes
-- List the stopped keys of an ordered group; atomic with how many events wait behind each.
-- KEYS: stopped lane
-- ARGV: none
-- Returns list[Any]: for each key, one after the other: key record waiting.

local found = {}
local records = redis.call('HGETALL', key.stopped)
for i = 1, #records, 2 do
  found[#found + 1] = records[i]
  found[#found + 1] = records[i + 1]
  found[#found + 1] = redis.call('ZCARD', key.lane .. records[i])
end
return found
