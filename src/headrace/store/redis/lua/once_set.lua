#!lua flags=allow-oom
-- Mark with a job that something was done; atomic, so that two writes of one job do not overwrite each other.
-- KEYS: jobs once log log_jobs sessions
-- ARGV: group job:bytes name:str value:bytes
-- Returns int: 1 if the job is alive.

local job = ARGV[2]
local place = get_place(key.jobs, job)
local alive = place and string.sub(place, 1, 1) ~= 'd'
if not alive and not (key.log_jobs ~= key.jobs and is_held(key.log, key.log_jobs, ARGV[1], job)) then
  return applied(0)
end
local done = once_in(redis.call('HGET', key.once, job))
done[ARGV[3]] = ARGV[4]
redis.call('HSET', key.once, job, cmsgpack.pack(done))
return applied(1)
