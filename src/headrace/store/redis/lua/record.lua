#!lua
-- Write an entry of a log of records, in the order of their names; atomic, so that entries and order never differ.
-- KEYS: values order sessions
-- ARGV: name:str value:bytes keep_ms:int most:int
-- Returns int: how many older entries were removed.

local name, keep_ms = ARGV[1], tonumber(ARGV[3])
redis.call('HSET', key.values, name, ARGV[2])
redis.call('ZADD', key.order, 0, name)
-- Names begin with the time. Some at a time, to keep a write short.
local oldest = string.format('%014d', math.max(0, now_ms() - keep_ms))
local gone = redis.call('ZRANGE', key.order, '-', '(' .. oldest, 'BYLEX', 'LIMIT', 0, 100)
local over = redis.call('ZCARD', key.order) - #gone - tonumber(ARGV[4])
if over > 0 then
  gone = redis.call('ZRANGE', key.order, 0, #gone + math.min(over, 100) - 1)
end
for _, each in ipairs(gone) do
  redis.call('HDEL', key.values, each)
  redis.call('ZREM', key.order, each)
end
redis.call('PEXPIRE', key.values, string.format('%d', keep_ms))
redis.call('PEXPIRE', key.order, string.format('%d', keep_ms))
return applied(#gone)
