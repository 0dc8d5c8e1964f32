#!lua flags=allow-oom
-- Forget dead jobs; atomic, so that none stays in the index or has a verdict without its entry.
-- KEYS: *
-- ARGV: events queue, then the job keys
-- Returns for each job 1 if it was dead and is gone, 0 otherwise.

local purged = {}
for i = 3, #ARGV do
  local job_key = ARGV[i]
  local place_now = place_of(job_key)
  local id = place_now and string.match(place_now, '^d(.+)$')
  local entry = id and redis.call('XRANGE', key.dead, id, id)[1]
  if id then
    redis.call('XDEL', key.dead, id)
    places[job_key] = false
    redis.call('HDEL', key.marks, job_key)
    redis.call('DEL', key.result .. job_key)
    local job = entry and job_of(job_key, entry[2])
    if job and freed_by(job) == 'blocked' then
      leave_lane(tie_of(job).k, tie_of(job).w)
    end
  end
  purged[#purged + 1] = id and 1 or 0
end
finish(0, '', {}, '')
return applied(purged)
