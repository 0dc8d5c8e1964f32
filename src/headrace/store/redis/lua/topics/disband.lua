#!lua flags=allow-oom
-- Remove a group of a topic with all that it holds; atomic, so that nothing of it comes back.
-- KEYS: *
-- ARGV: events:int queue expiry:int
-- Returns int: 1 if there was such a group, 0 if not.

local destroyed = redis.pcall('XGROUP', 'DESTROY', key.log, GROUP)
local there = redis.call('HDEL', key.groups, GROUP)
redis.call('HDEL', key.counted, GROUP)
for _, lane in ipairs(redis.call('HKEYS', key.lanes)) do
  redis.call('DEL', key.lane .. lane)
end
for _, name in ipairs(redis.call('ZRANGE', key.gates, 0, -1)) do
  redis.call('DEL', key.line .. name)
end
for _, task in ipairs(redis.call('SMEMBERS', key.paused)) do
  redis.call('DEL', key.line .. TASK_GATE .. task)
end
-- All of them: a group of the same name that begins later must not find events of this one.
local streams = {key.dead, key.ready}
for _, level in ipairs(levels_in(key.levels)) do
  streams[#streams + 1] = key.level .. level
end
drop_buckets(streams, math.huge)
redis.call('UNLINK', key.ready,
  key.scheduled, key.parked, key.dead, key.lanes, key.gates, key.children,
  key.flow_messages, key.cancelling, key.paused, key.progress, key.once, key.ticks, key.events, key.facts,
  key.epoch, key.reclaims, key.promoter, key.flow_relay, key.stopped, key.levels
)
-- Workers that still run must not create it again.
redis.call('SET', key.disbanded, '1', 'EX', ARGV[3])
redis.call('PUBLISH', key.control_channel, '')
return applied((there == 1 or destroyed == 1) and 1 or 0)
