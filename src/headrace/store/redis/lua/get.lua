#!lua flags=no-writes
-- The states of jobs; atomic, so that a job that moves is seen in one place.
-- KEYS: ready level jobs scheduled parked dead result progress log log_jobs flow history shelves line, of each queue
-- ARGV: groups returned bodies:bool inputs_most:int, then *job_ids:bytes
-- Returns list[list[Any]]: for each queue one after the other, and each job, {state, due, worker, deliveries, reason, envelope, history, verdict, constraints, progress, cause, ended, inputs, gathered}; state is '' if it is in no place; for a dead job, `due` is when it died. `ended` is {}, or {state}, or with bodies {state, shelf, chunk, place, data}, where the data is left out if the chunk came before. `gathered` is {}, or of a job that gathers, with bodies, {jobs of its batch, and when the first and the last of them came}.

local group, returned, bodies = nil, ARGV[2], ARGV[3] == '1'
local inputs_most = tonumber(ARGV[4])
local GONE = {'', '0', '', 0, '', '', '', '', '', '', ''}

local function in_stream(stream, id)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  return entry and entry[2] or {}
end

local function with_bodies(snapshot, history, envelope, constraints, inputs)
  if bodies then
    snapshot[6], snapshot[7], snapshot[9] = envelope, history, constraints
    snapshot[13] = #inputs <= inputs_most and inputs or ''
  end
  return snapshot
end

local function parked(job_id, state, due, reason)
  local snapshot = {state, due, '', 0, reason, '', '', '', '', '', ''}
  local body = bodies and redis.call('HGET', key.parked, job_id)
  if body then
    local job = unparked(job_id, body)
    return with_bodies(snapshot, job.history, job.envelope, job.constraints, job.inputs)
  end
  return snapshot
end

-- A job at a gate, which may be that of its batch.
local function at_gate(job_id, name)
  local snapshot, line = parked(job_id, 'blocked', '0', name), key.line .. name
  if bodies and string.sub(name, 1, 6) == 'batch:' then
    local first = redis.pcall('ZRANGE', line, 0, 0, 'WITHSCORES')[2]
    local last = first and redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    snapshot[14] = first and {redis.call('ZCARD', line), math.floor(first / 1000), math.floor(last / 1000)}
  end
  return snapshot
end

local function dead(id)
  if not string.find(id, '^%d+%-%d+$') then
    return {unpack(GONE)}
  end
  local fields = in_stream(key.dead, id)
  local died = string.match(id, '^%d+') or '0'
  local cause = bodies and cause_of(key.flow .. field(fields, 'k')) or ''
  local snapshot = {'dead', died, '', 0, field(fields, 'r'), '', '', '', '', '', cause}
  return with_bodies(snapshot, field(fields, 'h'), field(fields, 'j'), field(fields, 't'), field(fields, 'i'))
end

local function in_line(stream, id)
  local fields = in_stream(stream, id)
  if #fields == 0 then
    -- Someone deleted the stream: the job is gone, though it is in the index.
    return {unpack(GONE)}
  end
  local snapshot = {'waiting', '0', '', 0, '', '', '', '', '', '', ''}
  local pending = redis.pcall('XPENDING', stream, group, id, id, 1)
  if not pending.err and pending[1] then
    snapshot[4] = pending[1][4]
    if pending[1][2] ~= returned then
      snapshot[1], snapshot[3] = 'running', pending[1][2]
    end
  end
  return with_bodies(snapshot, field(fields, 'h'), field(fields, 'j'), field(fields, 't'), field(fields, 'i'))
end

local function ready(place)
  if not is_entry(place) then
    return {unpack(GONE)}
  end
  return in_line(entry_in(place))
end

-- An event that is not in the group's own queue: still to come from the log, held by a worker, or
-- settled.
local function in_log(event)
  local id = key.log ~= key.ready and get_place(key.log_jobs, event)
  local info = id and string.find(id, '^%d+%-%d+$') and group_info(key.log, group)
  if not info then
    return {unpack(GONE)}
  end
  local pending = #redis.call('XPENDING', key.log, group, id, id, 1) > 0
  return (pending or precedes_id(info.last, id)) and in_line(key.log, id) or {unpack(GONE)}
end

local function snapshot_of(job_id, place)
  local first = string.sub(place, 1, 1)
  if first == 's' or first == 'S' then
    return parked(job_id, 'scheduled', redis.call('ZSCORE', key.scheduled, job_id) or '0', '')
  elseif first == 'k' then
    return parked(job_id, 'blocked', '0', place == 'kt' and 'task_lane' or 'lane')
  elseif first == 'f' then
    return parked(job_id, 'blocked', '0', 'flow')
  elseif first == 'g' then
    return at_gate(job_id, string.sub(place, 2))
  elseif first == 'd' then
    return dead(string.sub(place, 2))
  end
  return ready(place)
end

-- What the history has of jobs that are in no place.
local function add_ended(snapshots)
  local missing, of_job = {}, {}
  for job_id, snapshot in pairs(snapshots) do
    if snapshot[1] == '' and (bodies or snapshot[8] == '') then
      missing[#missing + 1], of_job[job_id] = job_id, snapshot
    end
  end
  local sent = {}
  for job_id, ended in pairs(find_ended(missing)) do
    local shelf, chunk, place, state = unpack(ended)
    local name = key.history .. shelf
    local is_sent = sent[name .. ' ' .. chunk]
    of_job[job_id][12] = bodies and {state, shelf, chunk, place, not is_sent and redis.call('HGET', name, 'd' .. chunk) or ''} or {state}
    sent[name .. ' ' .. chunk] = true
  end
end

local snapshots = {}
each_queue(ARGV[1], function(its_group)
  group = its_group
  local of_queue = {}
  local has_progress = redis.call('EXISTS', key.progress) == 1
  for i = 5, #ARGV do
    local job_id = ARGV[i]
    local place = get_place(key.jobs, job_id)
    local stray = not place and string.match(job_id, '^=dead%-(%d+%-%d+)$')
    local snapshot
    if stray and redis.call('XRANGE', key.dead, stray, stray)[1] then
      -- An entry that is not in the index has its own id as its job id (see encoding.py).
      snapshot = dead(stray)
    else
      snapshot = place and snapshot_of(job_id, place) or in_log(job_id)
    end
    snapshot[8] = redis.call('GET', key.result .. job_id) or ''
    snapshot[10] = has_progress and redis.call('HGET', key.progress, job_id) or ''
    snapshot[12], snapshot[13], snapshot[14] = {}, snapshot[13] or '', snapshot[14] or {}
    of_queue[job_id] = of_queue[job_id] or snapshot
    snapshots[#snapshots + 1] = of_queue[job_id]
  end
  add_ended(of_queue)
end)
return snapshots
