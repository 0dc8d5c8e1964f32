#!lua flags=no-writes
-- The jobs of a flow in one queue, counted by state; atomic, so that a job that moves is counted once.
-- KEYS: jobs ready level flow flow_jobs flow_counts
-- ARGV: flow:str group returned members:bool
-- Returns list[Any]: how many are waiting, scheduled, blocked, running, done, dead and cancelled; other queues of the flow; if `members`, the ids of those that have not ended, and of dead ones that can be replayed.

local counts = {waiting = 0, scheduled = 0, blocked = 0, running = 0, done = 0, dead = 0, cancelled = 0}
local queues, live, failed = {}, {}, {}
local left = redis.call('HGETALL', key.flow_counts .. ARGV[1])
for i = 1, #left, 2 do
  if string.sub(left[i], 1, 1) == 'q' then
    queues[#queues + 1] = string.sub(left[i], 2)
  elseif counts[left[i]] then
    counts[left[i]] = tonumber(left[i + 1]) or 0
  end
end

-- Entries that a worker holds, of each stream: one read for all jobs.
local held = {}
local function is_running(stream, id)
  if not held[stream] then
    local taken, from, page = {}, '-', nil
    repeat
      page = redis.pcall('XPENDING', stream, ARGV[2], from, '+', 1000)
      for _, entry in ipairs(page.err and {} or page) do
        taken[entry[1]] = entry[2] ~= ARGV[3]
        from = '(' .. entry[1]
      end
    until page.err or #page < 1000
    held[stream] = taken
  end
  return held[stream][id]
end

local STATES = {s = 'scheduled', S = 'scheduled', k = 'blocked', f = 'blocked', g = 'blocked', d = 'dead'}
local function state_of_place(place)
  local parked = STATES[string.sub(place, 1, 1)]
  if parked or not is_entry(place) then
    return parked
  end
  return is_running(entry_in(place)) and 'running' or 'waiting'
end

local members, places = redis.call('SMEMBERS', key.flow_jobs .. ARGV[1]), {}
get_places(key.jobs, members, places, false)
for _, job_id in ipairs(members) do
  local state = places[job_id] and state_of_place(places[job_id])
  if state then
    counts[state] = counts[state] + 1
    if ARGV[4] ~= '1' then
      -- Only the numbers are asked for.
    elseif state ~= 'dead' then
      live[#live + 1] = job_id
    elseif redis.call('EXISTS', key.flow .. job_id) == 0 then
      failed[#failed + 1] = job_id
    end
  end
end
return {
  {counts.waiting, counts.scheduled, counts.blocked, counts.running, counts.done, counts.dead, counts.cancelled},
  queues, live, failed,
}
