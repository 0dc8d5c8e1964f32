#!lua flags=allow-oom
-- Remove a queue with all that it holds; atomic, so that no job comes between the check and the removal.
-- KEYS: *
-- ARGV: events:int queue force:bool
-- Returns int: how many jobs it holds, 0 if it is gone.

local MOST_READ = 10000

-- A key of another type holds no jobs of ours.
local function counted(found)
  return type(found) == 'number' and found or 0
end

local streams = {key.ready}
for _, level in ipairs(counted(redis.pcall('ZCARD', key.levels)) > 0 and levels_in(key.levels) or {}) do
  streams[#streams + 1] = key.level .. level
end
local held = counted(redis.pcall('HLEN', key.parked)) + counted(redis.pcall('XLEN', key.dead))
for _, stream in ipairs(streams) do
  held = held + counted(redis.pcall('XLEN', stream))
end
held = math.max(held, counted(redis.pcall('ZCARD', key.scheduled)))
if held > 0 and ARGV[3] ~= '1' then
  return held
end
-- The caller finds other buckets by their names; to read all jobs of a long queue would take too long.
drop_buckets({key.dead, unpack(streams)}, MOST_READ)
for _, stream in ipairs(streams) do
  redis.call('UNLINK', stream)
end
-- The caller finds the other keys by their names.
redis.call('UNLINK', key.scheduled, key.parked, key.dead, key.lanes, key.gates, key.children,
  key.flow_messages, key.cancelling, key.paused, key.progress, key.once, key.ticks, key.events, key.facts,
  key.epoch, key.reclaims, key.promoter, key.flow_relay, key.levels
)
redis.call('PUBLISH', key.control_channel, '')
return applied(0)
