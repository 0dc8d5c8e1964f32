#!lua flags=allow-oom
-- Count the starts of jobs with limits; atomic, so that no two workers take the last one.
-- KEYS: *
-- ARGV: events:int queue, then *jobs, for each: job_id constraints
-- Returns list[bytes]: for each job '' if it may start, else the limit at which it must wait.

local function refused(job)
  local limits = constraints_of(job).limits or {}
  local fresh = {}
  for i, limit in ipairs(limits) do
    if redis.call('SISMEMBER', key.passed .. limit[1], job.id) == 0 then
      if wait_for(limit) ~= 0 then
        return limit[1]
      end
      fresh[i] = true
    end
  end
  for i, limit in ipairs(limits) do
    if fresh[i] then
      keep_pace(limit, 1)
    else
      redis.call('SREM', key.passed .. limit[1], job.id)
    end
    count_start(limit)
    if redis.call('EXISTS', key.line .. limit[1]) == 1 and not redis.call('ZSCORE', key.gates, limit[1]) then
      -- The jobs that are blocked here had no time at which to look again.
      arm(limit[1], limit[3])
    end
  end
  return ''
end

local answers = {}
for i = 3, #ARGV, 2 do
  local job = {id = ARGV[i], envelope = '', history = '', constraints = ARGV[i + 1], inputs = ''}
  local fine, answer = pcall(refused, job)
  -- If the keys of a limit are not of their types, nothing can be counted: none may start.
  answers[#answers + 1] = fine and answer or constraints_of(job).limits[1][1]
end
finish(0, '', {}, '')
return applied(answers)
