#!lua flags=allow-oom
-- Forget dead jobs; atomic, so that none stays in the index or has a verdict without its entry.
-- KEYS: jobs dead result marks
-- ARGV: the job keys
-- Returns for each job 1 if it was dead and is gone, 0 otherwise.

local purged = {}
for i, job_key in ipairs(ARGV) do
  local place = redis.call('HGET', key.jobs, job_key)
  local id = place and string.match(place, '^d(.+)$')
  purged[i] = 0
  if id then
    redis.call('XDEL', key.dead, id)
    redis.call('HDEL', key.jobs, job_key)
    redis.call('HDEL', key.marks, job_key)
    redis.call('DEL', key.result .. job_key)
    purged[i] = 1
  end
end
return purged
