#!lua
-- Keep the progress and log lines of running jobs; atomic, so that nothing is kept of a job that has ended.
-- KEYS: jobs progress journal reports_channel log log_jobs sessions
-- ARGV: group lines_most:int log_ttl:int reported:bytes, then *jobs, for each: job_id progress count, and that many lines
-- Returns int: how many of the jobs are in the store.

-- A log is a list whose first element is the number of lines dropped before the others.
local function add_lines(log, first, last)
  if redis.call('EXISTS', log) == 0 then
    redis.call('RPUSH', log, '0')
  end
  -- Lua unpacks a few thousand values at most.
  for from = first, last, 1000 do
    redis.call('RPUSH', log, unpack(ARGV, from, math.min(from + 999, last)))
  end
  local over = redis.call('LLEN', log) - 1 - tonumber(ARGV[2])
  if over > 0 then
    local dropped = tonumber(redis.call('LINDEX', log, 0)) + over
    redis.call('LTRIM', log, over, -1)
    redis.call('LSET', log, 0, string.format('%d', dropped))
  end
  redis.call('EXPIRE', log, ARGV[3])
end

local at, kept = 5, 0
while at <= #ARGV do
  local job_id, progress, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  at = at + 3
  local place = get_place(key.jobs, job_id)
  if not place and key.log_jobs ~= key.jobs and is_held(key.log, key.log_jobs, ARGV[1], job_id) then
    place = '@'
  end
  if place then
    kept = kept + 1
    if progress ~= '' and string.sub(place, 1, 1) ~= 'd' then
      redis.call('HSET', key.progress, job_id, progress)
    end
    if count > 0 then
      add_lines(key.journal .. job_id, at, at + count - 1)
    end
  end
  at = at + count
end
if kept > 0 then
  redis.call('PUBLISH', key.reports_channel, ARGV[4])
end
return applied(kept)
