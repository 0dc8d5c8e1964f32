#!lua flags=no-writes
-- Count the jobs of a queue; atomic, so that a job that moves is counted once.
-- KEYS: ready level levels jobs scheduled dead log
-- ARGV: group returned
-- Returns {waiting, running, scheduled, dead, blocked}.

local running, there = 0, 0

local function add(stream)
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

local function add_all(stream)
  there = there + redis.call('XLEN', stream)
  add(stream)
end

add_all(key.ready)
for _, level in ipairs(redis.call('ZRANGE', key.levels, 0, -1)) do
  add_all(key.level .. level)
end
local blocked_or_here = redis.call('HLEN', key.jobs) - there
if key.log ~= key.ready then
  -- Of the log what the group was given and has not settled, and what is still to come.
  add(key.log)
  there = there + behind(key.log, ARGV[1]) + pending_in(key.log, ARGV[1])
end
local scheduled, dead = redis.call('ZCARD', key.scheduled), redis.call('XLEN', key.dead)
local blocked = math.max(0, blocked_or_here - scheduled - dead)
return {there - running, running, scheduled, dead, blocked}
