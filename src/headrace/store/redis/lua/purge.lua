#!lua flags=allow-oom
-- Forget dead jobs; atomic, so that none stays in the index or has a verdict without its entry.
-- KEYS: *
-- ARGV: events:int queue, then *job_ids:bytes
-- Returns list[int]: for each job 1 if it was dead and is gone, 0 otherwise.

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end

local purged = {}
for i = 3, #ARGV do
  local job_id = ARGV[i]
  local place_now = place_of(job_id)
  local id = place_now and string.match(place_now, '^d(%d+%-%d+)$')
  -- An entry that is not in the index has its own id as its job id (see encoding.py).
  local stray = not place_now and string.match(job_id, '^=dead%-(%d+%-%d+)$')
  local entry = (id or stray) and redis.call('XRANGE', key.dead, id or stray, id or stray)[1]
  if stray then
    id = entry and stray
    local own = entry and field(entry[2], 'k')
    if own and place_of(own) == 'd' .. stray then
      places[own] = false
    end
  end
  if id then
    redis.call('XDEL', key.dead, id)
    places[job_id] = false
    redis.call('HDEL', key.progress, job_id)
    redis.call('HDEL', key.once, job_id)
    redis.call('DEL', key.result .. job_id, key.flow .. job_id)
    notify_children(job_id, 'forgotten', '')
    local job = entry and job_of(job_id, entry[2])
    leave_flow(job and constraints_of(job).flow, job_id, 'dead')
    if job and freed_by(job) == 'blocked' then
      leave_lane(constraints_of(job).lane, constraints_of(job).width)
    end
  end
  purged[#purged + 1] = id and 1 or 0
end
finish(0, '', {}, '')
return applied(purged)
