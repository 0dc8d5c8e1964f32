#!lua
-- Give waiting and scheduled jobs another time, priority or queue; atomic, so that a job is never in two places or none.
-- KEYS: *
-- ARGV: events:int queue when:str priority:str target:str, then *job_ids:bytes
-- Returns list[int]: for each job 1 if it was waiting or scheduled, and could be moved, 0 otherwise.

-- when: '' as it was, '+ms' that long from now, '@ms' at that time. priority: '' as it was. target: another queue, to which
-- a message takes the job: see `flow_messages`.
local when, priority, target = ARGV[3], ARGV[4], ARGV[5]
local due = due_of(when)

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end

local function prioritise(job)
  if priority == '' or (constraints_of(job).priority or 0) == tonumber(priority) then
    return false
  end
  local fine, read = pcall(cmsgpack.unpack, job.constraints)
  read = fine and type(read) == 'table' and read or {}
  read.p = priority ~= '0' and tonumber(priority) or nil
  job.constraints = next(read) and cmsgpack.pack(read) or ''
  return true
end

-- What others know a job by, or keep of it, stays in its queue; and so does its lane, whose order is that of one queue.
local function is_bound(job)
  local constraints = constraints_of(job)
  return constraints.unique or constraints.flow or constraints.lane or constraints.task_lane or job.inputs ~= '' or redis.call('HEXISTS', key.children, job.id) == 1
    or redis.call('HEXISTS', key.once, job.id) == 1
end

-- The job has left its place; the message has all that there is of it.
local function send_away(job, due_before_ms)
  local time = when ~= '' and when or due_before_ms and '@' .. due_before_ms or ''
  places[job.id] = false
  release(job.id, constraints_of(job), false)
  redis.call('HDEL', key.progress, job.id)
  prioritise(job)
  redis.call('XADD', key.flow_messages, '*', 'q', target, 'k', job.id, 'w', time, 'j', job.envelope, 'h', job.history, 't', job.constraints)
  has_messages = true
end

local function from_stream(job_id, place_now)
  local stream, id = entry_at(place_now)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  local pending = redis.pcall('XPENDING', stream, GROUP, id, id, 1)
  local holder = not pending.err and pending[1] and pending[1][2]
  if not entry or (holder and holder ~= RETURNED) then
    return 0
  end
  local job = job_of(job_id, entry[2])
  if target ~= '' and is_bound(job) then
    return 0
  elseif target == '' and not due and not prioritise(job) then
    return 1
  end
  if holder then
    redis.call('XACK', stream, GROUP, id)
  end
  redis.call('XDEL', stream, id)
  if target ~= '' then
    send_away(job)
  elseif due then
    local constraints = constraints_of(job)
    prioritise(job)
    schedule(job, due, 's')
    record_fact('scheduled', job)
    give_back(constraints.limits or {}, job.id)
    leave_task_lane(constraints)
    if constraints.lane then
      leave_lane(constraints.lane, constraints.width)
    end
  else
    -- It has passed all its gates.
    put_in_stream(job)
  end
  return 1
end

local function from_schedule(job_id, place_now)
  local body = body_of(job_id)
  local job = body and unparked(job_id, body)
  if not job or (target ~= '' and is_bound(job)) then
    return 0
  end
  watch_due()
  local before = redis.call('ZSCORE', key.scheduled, job_id)
  redis.call('ZREM', key.scheduled, job_id)
  bodies[job_id] = false
  if target ~= '' then
    send_away(job, before)
    return 1
  end
  prioritise(job)
  if when == '' or due then
    schedule(job, due or tonumber(before) or now(), place_now)
    record_fact('scheduled', job)
    return 1
  end
  local constraints = constraints_of(job)
  if constraints.debounced and redis.call('GET', key.unique .. constraints.unique) == job_id then
    redis.call('DEL', key.unique .. constraints.unique)
  end
  if place(job, place_now == 'S') then
    record_fact('ready', job)
  end
  return 1
end

local function reschedule(job_id)
  local place_now = place_of(job_id)
  if not place_now or IS_LOG then
    return 0
  elseif is_entry(place_now) then
    return from_stream(job_id, place_now)
  elseif place_now == 's' or place_now == 'S' then
    return from_schedule(job_id, place_now)
  end
  return 0
end

local answers = {}
for i = 6, #ARGV do
  local fine, answer = pcall(reschedule, ARGV[i])
  answers[#answers + 1] = fine and answer or 0
end
finish(0, '', {}, '')
return applied(answers)
