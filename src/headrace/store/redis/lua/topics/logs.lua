#!lua flags=no-writes
-- The length and the groups of logs; atomic, as one call for many of them.
-- KEYS: log groups, of each queue
-- ARGV: groups
-- Returns list[list[Any]]: for each log {length, groups}: `groups` has name and record of each, in no order.

local logs = {}
each_queue(ARGV[1], function()
  logs[#logs + 1] = {redis.call('XLEN', key.log), redis.call('HGETALL', key.groups)}
end)
return logs
