#!lua flags=no-writes
-- Entries of a log of records before a name, the latest first; atomic, so that none is removed in between.
-- KEYS: values order
-- ARGV: before:str limit:int keep_ms:int
-- Returns list[bytes]: names and values in turn.

local oldest = string.format('%014d', math.max(0, now_ms() - ARGV[3]))
local latest = ARGV[1] == '' and '+' or '(' .. ARGV[1]
local found = {}
for _, name in ipairs(redis.call('ZRANGE', key.order, latest, '[' .. oldest, 'BYLEX', 'REV', 'LIMIT', 0, ARGV[2])) do
  found[#found + 1] = name
  found[#found + 1] = redis.call('HGET', key.values, name) or ''
end
return found
