#!lua flags=no-writes
-- Count the jobs of a queue; atomic, so that a job that moves is counted once.
-- KEYS: ready level levels jobs scheduled dead
-- ARGV: group returned
-- Returns {waiting, running, scheduled, dead, blocked}.

local running, there = 0, 0

local function add(stream)
  there = there + redis.call('XLEN', stream)
  local pending = redis.pcall('XPENDING', stream, ARGV[1])
  if pending.err then
    return
  end
  running = running + pending[1]
  for _, consumer in ipairs(pending[4] or {}) do
    if consumer[1] == ARGV[2] then
      running = running - tonumber(consumer[2])
    end
  end
end

add(key.ready)
for _, level in ipairs(redis.call('ZRANGE', key.levels, 0, -1)) do
  add(key.level .. level)
end
local scheduled, dead = redis.call('ZCARD', key.scheduled), redis.call('XLEN', key.dead)
local blocked = math.max(0, redis.call('HLEN', key.jobs) - there - scheduled - dead)
return {there - running, running, scheduled, dead, blocked}
