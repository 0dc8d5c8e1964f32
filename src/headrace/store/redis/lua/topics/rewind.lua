#!lua flags=allow-oom
-- Move a group to a place in its log; atomic with the epoch, because what others hold is handed out again.
-- KEYS: *
-- ARGV: events:int queue kind:str value:Argument
-- Returns int: 1 if it was moved, 0 if there is no such group, -1 if the event is not in the log.

local info = group_info(key.log, GROUP)
if not info then
  return 0
end
local id = place_in(key.log, key.log_jobs, ARGV[3], ARGV[4])
if not id then
  return -1
end

local function is_in_log(event)
  local at = get_place(key.log_jobs, event)
  return at and string.find(at, '^%d+%-%d+$') and at
end

local function comes_again(event)
  local at = is_in_log(event)
  return at and precedes_id(id, at)
end

-- Copies that have not begun: the group takes them from the log again, or passes over them. It keeps
-- those that the log no longer has.
local function forget_waiting()
  for _, name in ipairs(redis.call('HKEYS', key.lanes)) do
    for _, event in ipairs(redis.call('ZRANGE', key.lane .. name, 0, -1)) do
      if is_in_log(event) then
        redis.call('ZREM', key.lane .. name, event)
        bodies[event], places[event] = false, false
      end
    end
  end
  local own = group_info(key.ready, GROUP)
  for _, entry in ipairs(own and redis.call('XRANGE', key.ready, '(' .. own.last, '+') or {}) do
    local job = job_of(id_of(field(entry[2], 'j')), entry[2])
    if job.history == '' and is_in_log(job.id) then
      redis.call('XDEL', key.ready, entry[1])
      places[job.id] = false
      if constraints_of(job).lane then
        leave_lane(constraints_of(job).lane, constraints_of(job).width)
      end
    end
  end
end

-- Keys that were stopped by events which come again go on.
local function free_keys()
  local records = redis.call('HGETALL', key.stopped)
  for i = 1, #records, 2 do
    local state, event = string.match(records[i + 1], '^(%a+) %d+ (.*)$')
    if event and comes_again(event) then
      redis.call('HDEL', key.stopped, records[i])
      if state == 'blocked' then
        leave_lane(records[i])
      end
    end
  end
end

-- Dead events that come again are no longer dead, unless their key has failed.
local function revive_dead()
  for _, entry in ipairs(redis.call('XRANGE', key.dead, '-', '+')) do
    local event = entry[2][2]
    if comes_again(event) and not has_failed(constraints_of(job_of(event, entry[2])).lane) then
      redis.call('XDEL', key.dead, entry[1])
      redis.call('HDEL', key.progress, event)
      places[event] = false
    end
  end
end

if string.sub(redis.call('HGET', key.groups, GROUP) or '', 1, 1) == '1' then
  forget_waiting()
  free_keys()
end
revive_dead()
set_place('SETID', key.log, GROUP, id)
next_epoch()
control_changed = true
finish(0, '', {}, '')
return applied(1)
