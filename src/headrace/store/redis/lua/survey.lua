#!lua flags=no-writes
-- The state of queues; atomic, so that a job that moves is counted once.
-- KEYS: ready level levels jobs scheduled dead paused log counted, of each queue
-- ARGV: groups returned
-- Returns list[list[Any]]: for each queue {waiting, running, scheduled, dead, blocked, oldest, paused…}: `oldest` is when the job that has waited longest became ready, 0 if none waits; `paused` has the paused tasks, '' for all.

local group, there, running, oldest

local function consider(entry)
  local ms = entry and tonumber(string.match(entry[1], '^%d+'))
  if ms and (not oldest or ms < oldest) then
    oldest = ms
  end
end

local function consider_next(stream, info)
  consider(redis.call('XRANGE', stream, info and '(' .. info.last or '-', '+', 'COUNT', 1)[1])
end

-- How much of a stream workers hold; what was handed back is waiting again.
local function add_pending(stream)
  local pending = redis.pcall('XPENDING', stream, group)
  if pending.err then
    return 0
  end
  running = running + pending[1]
  for _, consumer in ipairs(pending[4] or {}) do
    if consumer[1] == ARGV[2] then
      running = running - tonumber(consumer[2])
      consider(redis.call('XPENDING', stream, group, '-', '+', 1, ARGV[2])[1])
    end
  end
  return pending[1]
end

local function add_stream(stream)
  local length, pending = redis.call('XLEN', stream), add_pending(stream)
  there = there + length
  if length > pending then
    consider_next(stream, pending > 0 and group_info(stream, group))
  end
end

-- From the log: what the group was given and has not settled, and what is still to come.
local function add_log()
  local info = group_info(key.log, group)
  local to_come = behind(key.log, group, info)
  there = there + to_come + add_pending(key.log)
  if to_come > 0 then
    consider_next(key.log, info)
  end
end

local states = {}
each_queue(ARGV[1], function(its_group)
  group, there, running, oldest = its_group, 0, 0, nil
  add_stream(key.ready)
  for _, level in ipairs(levels_in(key.levels)) do
    add_stream(key.level .. level)
  end
  local blocked_or_here = redis.call('HLEN', key.jobs) - there
  if key.log ~= key.ready then
    add_log()
  end
  local scheduled, dead = redis.call('ZCARD', key.scheduled), redis.call('XLEN', key.dead)
  local blocked = math.max(0, blocked_or_here - scheduled - dead)
  local paused = redis.call('SMEMBERS', key.paused)
  states[#states + 1] = {there - running, running, scheduled, dead, blocked, oldest or 0, unpack(paused)}
end)
return states
