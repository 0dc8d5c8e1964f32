-- The end of a job: what it frees, and its children.

local finished = {}

local function trouble_in(failure)
  return string.sub(tostring(type(failure) == 'table' and failure.err or failure), 1, 500)
end

-- Ends on their way to children: {child queue, child, parent, state, value, anyway, replays}
local agenda = {}

-- Report to the children of a job that it has ended, or, as 'waiting', that it was replayed. A dead job keeps its
-- children, with the number of its replays before them, until it is 'forgotten': to them it is dead for good, and why
-- they are, whichever job failed before it.
local function notify_children(parent, state, value)
  local records = redis.call('HGET', key.children, parent)
  if not records then
    return
  end
  local replays, at = string.match(records, '^(%d+)!()')
  replays, at = tonumber(replays) or 0, at or 1
  if state == 'waiting' then
    replays = replays + 1
    redis.call('HSET', key.children, parent, string.format('%d!', replays) .. string.sub(records, at))
  elseif state == 'dead' or state == 'forgotten' then
    -- To its children, the job that failed first is why.
    value = value ~= '' and value or '\146' .. cmsgpack.pack(QUEUE) .. binary(parent)
  end
  if state ~= 'waiting' and state ~= 'dead' then
    redis.call('HDEL', key.children, parent)
  end
  while at <= #records do
    local queue, child, anyway, start = string.match(records, '^(%d+),(%d+),(%d):()', at)
    if not start then
      -- Not ours: further children in it cannot be found.
      return
    end
    local split = start + tonumber(queue)
    at = split + tonumber(child)
    queue, child = string.sub(records, start, split - 1), string.sub(records, split, at - 1)
    if queue == '' then
      -- Not a child, but a job that this one stands for, with children of its own.
      notify_children(child, state, value)
    else
      agenda[#agenda + 1] = {queue, child, parent, state == 'forgotten' and 'dead' or state, value, anyway == '1', replays}
    end
  end
end

-- Jobs that leave their flows, by flow and last state. `finish` writes it.
local leaving = {}
local function leave_flow(flow, job_id, state)
  if flow then
    leaving[flow] = leaving[flow] or {}
    leaving[flow][state] = leaving[flow][state] or {}
    table.insert(leaving[flow][state], job_id)
  end
end

-- Free what a job with constraints holds. `in_lane`: true if it is in all of its lanes, 'own' if not in that of its
-- task.
local function release(job_id, constraints, in_lane)
  if constraints.unique then
    local unique = key.unique .. constraints.unique
    if redis.call('GET', unique) == job_id then
      if constraints.unique_for_ms then
        redis.call('PEXPIRE', unique, constraints.unique_for_ms)
      else
        redis.call('DEL', unique)
      end
    end
  end
  if constraints.limits then
    give_back(constraints.limits, job_id)
  end
  if in_lane == true then
    -- First, so that the next job of its key waits behind others of its task.
    leave_task_lane(constraints)
  end
  if constraints.lane and in_lane then
    leave_lane(constraints.lane, constraints.width)
  end
end

-- These need not be ended any more: workers must not mistake a later job for one of them.
local function forget_cancel_requests(job_ids)
  if redis.call('HDEL', key.cancelling, unpack(job_ids)) > 0 then
    control_changed = true
  end
end

-- Everything that follows from an end. The caller changes the job's place.
local function ended(job_id, constraints, in_lane, state, value)
  release(job_id, constraints, in_lane)
  if state ~= 'dead' then
    leave_flow(constraints.flow, job_id, state)
  end
  if any_special() then
    forget_cancel_requests({job_id})
    if state ~= 'dead' then
      redis.call('HDEL', key.progress, job_id)
      redis.call('HDEL', key.once, job_id)
    end
    notify_children(job_id, state, value)
  end
end

local function keep_verdict(job_id, verdict, ttl)
  if verdict ~= '' and tonumber(ttl) > 0 then
    redis.call('SET', key.result .. job_id, verdict, 'PX', ttl)
  end
end

local function cancelled(job, in_lane)
  places[job.id] = false
  keep_cancelled(job, '', CANCELLED)
  keep_verdict(job.id, CANCELLED, constraints_of(job).ttl_ms or KEPT_MS)
  finished[#finished + 1] = binary(job.id)
  record_fact('cancelled', job)
  ended(job.id, constraints_of(job), in_lane, 'cancelled', '')
end

-- A dead event that stops its key stays until a person acts.
local function forget_dead(entry)
  local job = job_of(entry[2][2], entry[2])
  local lane = MEMBERS and constraints_of(job).lane
  local stopped_by = string.match(lane and stop_of(lane) or '', '^blocked %d+ (.*)$')
  if stopped_by ~= job.id then
    redis.call('XDEL', key.dead, entry[1])
    places[job.id] = false
    redis.call('HDEL', key.progress, job.id)
    redis.call('HDEL', key.once, job.id)
    redis.call('DEL', key.flow .. job.id)
    leave_flow(constraints_of(job).flow, job.id, 'dead')
    notify_children(job.id, 'forgotten', '')
  end
end

-- Dead jobs that are too many or too old, a few at a time, to keep steps short.
local function drop_oldest_dead(limit)
  local own = RULES ~= '' and cmsgpack.unpack(RULES)[3] or {DEAD_MOST, DEAD_MS}
  local over = redis.call('XLEN', key.dead) - own[1]
  if over > 0 then
    for _, entry in ipairs(redis.call('XRANGE', key.dead, '-', '+', 'COUNT', math.min(over, limit))) do
      forget_dead(entry)
    end
  end
  -- Never before 1970: a script that raises half way would lose the job.
  local old = string.format('(%d', math.max(1, now() - own[2]))
  for _, entry in ipairs(redis.call('XRANGE', key.dead, '-', old, 'COUNT', limit)) do
    forget_dead(entry)
  end
end

local function write_dead(job, reason)
  local before = MEMBERS and place_of(job.id)
  if before and string.sub(before, 1, 1) == 'd' then
    -- A rewound group has met an event again that was dead already.
    redis.call('XDEL', key.dead, string.sub(before, 2))
  end
  local id = redis.call('XADD', key.dead, '*', 'k', job.id, 'r', reason, 'j', job.envelope, 'h', job.history, 't', job.constraints, 'i', job.inputs)
  places[job.id] = 'd' .. id
end

local function add_dead(job, reason)
  write_dead(job, reason)
  -- It makes room for itself.
  drop_oldest_dead(10)
end

-- A job that never runs, with a verdict that says why.
local function fail(job, reason, text, cause)
  add_dead(job, reason)
  local verdict = '\149\164dead\196\0' .. cmsgpack.pack(reason) .. '\160' .. cmsgpack.pack(text)
  keep_verdict(job.id, verdict, constraints_of(job).ttl_ms or KEPT_MS)
  finished[#finished + 1] = binary(job.id)
  record_fact('dead', job, reason, cause or text)
end

-- What it waits for is kept: it goes on when all jobs that failed have been replayed.
local function failed_by_parent(job, cause)
  fail(job, 'parent_failed', 'a job that it waited for failed', cause)
  ended(job.id, constraints_of(job), false, 'dead', cause)
end

-- A debounced job has its name only while it is scheduled.
local function take_name_again(job)
  local constraints = constraints_of(job)
  local unique = constraints.unique and not constraints.debounced and key.unique .. constraints.unique
  if unique and (redis.call('GET', unique) or job.id) == job.id then
    redis.call('SET', unique, job.id)
  end
end

-- Something that the job needs in the store is malformed. The job goes dead with its bytes, so that
-- others go on.
die_on_the_way = function(job, failure)
  bodies[job.id] = false
  fail(job, 'malformed', 'it could not be moved: ' .. trouble_in(failure))
  pcall(ended, job.id, constraints_of(job), false, 'dead', '')
end

-- Call what moves a job that was taken out of its place.
local function safely(job, act, ...)
  local fine, answer = pcall(act, ...)
  if fine then
    return answer
  end
  die_on_the_way(job, answer)
end
