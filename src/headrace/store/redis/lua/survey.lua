#!lua flags=no-writes
-- The state of queues; atomic, so that a job that moves is counted once.
-- KEYS: ready level levels parked scheduled dead paused log counted, of each queue
-- ARGV: groups returned
-- Returns list[list[Any]]: for each queue {runners, scheduled, dead, blocked, died, paused…}: `died` is when the latest dead job died, 0 if there is none; `runners` has, for loop, thread and process one after the other, how many are waiting and running, and when the job that has waited longest became ready, 0 if none waits; `paused` has the paused tasks, '' for all.

-- Of each runner, by its label: how many are there, and how many of those are running.
local group, there, running, oldest
local label = ''

local function consider(entry)
  local ms = entry and tonumber(string.match(entry[1], '^%d+'))
  if ms and (not oldest[label] or ms < oldest[label]) then
    oldest[label] = ms
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
  running[label] = running[label] + pending[1]
  for _, consumer in ipairs(pending[4] or {}) do
    if consumer[1] == ARGV[2] then
      running[label] = running[label] - tonumber(consumer[2])
      consider(redis.call('XPENDING', stream, group, '-', '+', 1, ARGV[2])[1])
    end
  end
  return pending[1]
end

local function add_stream(stream)
  local length, pending = redis.call('XLEN', stream), add_pending(stream)
  there[label] = there[label] + length
  if length > pending then
    consider_next(stream, pending > 0 and group_info(stream, group))
  end
end

-- From the log: what the group was given and has not settled, and what is still to come.
local function add_log()
  local info = group_info(key.log, group)
  local to_come = behind(key.log, group, info)
  there[label] = there[label] + to_come + add_pending(key.log)
  if to_come > 0 then
    consider_next(key.log, info)
  end
end

local states = {}
each_queue(ARGV[1], function(its_group)
  group, there, running, oldest = its_group, {[''] = 0, t = 0, p = 0}, {[''] = 0, t = 0, p = 0}, {}
  for _, level in ipairs(levels_in(key.levels)) do
    label = string.match(level, '^b?([tp]?)')
    add_stream(key.level .. level)
  end
  label = ''
  add_stream(key.ready)
  if key.log ~= key.ready then
    add_log()
  end
  local scheduled, dead = redis.call('ZCARD', key.scheduled), redis.call('XLEN', key.dead)
  -- Scheduled and blocked jobs are parked.
  local blocked = math.max(0, redis.call('HLEN', key.parked) - scheduled)
  local paused = redis.call('SMEMBERS', key.paused)
  local runners = {}
  for _, each in ipairs({'', 't', 'p'}) do
    runners[#runners + 1] = there[each] - running[each]
    runners[#runners + 1] = running[each]
    runners[#runners + 1] = oldest[each] or 0
  end
  local latest = dead > 0 and redis.call('XREVRANGE', key.dead, '+', '-', 'COUNT', 1)[1]
  local died = latest and tonumber(string.match(latest[1], '^%d+')) or 0
  states[#states + 1] = {runners, scheduled, dead, blocked, died, unpack(paused)}
end)
return states
