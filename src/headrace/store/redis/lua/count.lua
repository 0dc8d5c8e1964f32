#!lua flags=no-writes
-- Count the jobs of a queue; atomic, so that a job that moves is counted once.
-- KEYS: ready scheduled dead
-- ARGV: group returned
-- Returns {waiting, running, scheduled, dead}.

local running = 0
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1])
if not pending.err then
  running = pending[1]
  for _, consumer in ipairs(pending[4] or {}) do
    if consumer[1] == ARGV[2] then
      running = running - tonumber(consumer[2])
    end
  end
end
local waiting = redis.call('XLEN', KEYS[1]) - running
return {waiting, running, redis.call('ZCARD', KEYS[2]), redis.call('XLEN', KEYS[3])}
