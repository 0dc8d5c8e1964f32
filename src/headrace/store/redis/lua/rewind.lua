#!lua flags=allow-oom
-- Move a group to a place in its log; atomic with the epoch, because what others hold is handed out again.
-- KEYS: *
-- ARGV: events queue kind value
-- Returns 1 if it was moved, 0 if there is no such group, -1 if the event is not in the log.

local info = group_info(key.log, GROUP)
if not info then
  return 0
end
local id = place_in(key.log, key.log_jobs, ARGV[3], ARGV[4])
if not id then
  return -1
end

local function comes_again(event)
  local at = redis.call('HGET', key.log_jobs, event)
  return at and string.find(at, '-', 1, true) and precedes_id(id, at)
end

-- Copies that nobody has begun: the group takes them from the log anew, or passes over them.
local function forget_waiting()
  for _, name in ipairs(redis.call('HKEYS', key.lanes)) do
    for _, event in ipairs(redis.call('ZRANGE', key.lane .. name, 0, -1)) do
      bodies[event], places[event] = false, false
    end
    redis.call('DEL', key.lane .. name)
  end
  local own = group_info(key.ready, GROUP)
  for _, entry in ipairs(own and redis.call('XRANGE', key.ready, '(' .. own.last, '+') or {}) do
    local job = job_of(key_of(field(entry[2], 'j')), entry[2])
    if job.past == '' then
      redis.call('XDEL', key.ready, entry[1])
      places[job.key] = false
      if tie_of(job).k then
        leave_lane(tie_of(job).k)
      end
    end
  end
end

local function forget_dead()
  for _, entry in ipairs(redis.call('XRANGE', key.dead, '-', '+')) do
    local event = entry[2][2]
    if comes_again(event) then
      redis.call('XDEL', key.dead, entry[1])
      places[event] = false
    end
  end
end

if string.sub(redis.call('HGET', key.groups, GROUP) or '', 1, 1) == '1' then
  forget_waiting()
else
  forget_dead()
end
redis.call('XGROUP', 'SETID', key.log, GROUP, id, 'ENTRIESREAD', ever_until(key.log, id))
redis.call('INCR', key.epoch)
control_changed = true
finish(0, '', {}, '')
return 1
