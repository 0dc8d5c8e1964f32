-- Scheduled jobs, and jobs that wait for a worker.

local due_before
local function first_due()
  local due = redis.call('ZRANGE', key.scheduled, 0, 0, 'WITHSCORES')[2]
  local gate = redis.call('ZRANGE', key.gates, 0, 0, 'WITHSCORES')[2]
  if due and gate then
    return math.min(tonumber(due), tonumber(gate))
  end
  return tonumber(due or gate) or false
end

-- Call this before due times change: it notifies promoters, which sleep until the next one.
local function watch_due()
  if due_before == nil then
    due_before = first_due()
  end
end

local function schedule(job, due, place)
  watch_due()
  redis.call('ZADD', key.scheduled, string.format('%d', due), job.id)
  park(job, place)
end

local control_changed = false

local function stream_of(level)
  if level == '@' then
    return key.log
  end
  return level == '0' and key.ready or key.level .. level
end

-- Take an entry out of its stream; events stay in their log, for others and for later.
local function take_away(stream, id)
  if not MEMBERS or stream ~= key.log then
    redis.call('XDEL', stream, id)
  end
end

-- The labels of all streams, the highest priority first; '0' for the one without a label.
local function levels()
  local found = levels_in(key.levels)
  found[#found + 1] = '0'
  if MEMBERS then
    found[#found + 1] = '@'
  end
  return found
end

-- The label of the stream in which a job waits. Events are not kept apart by runner.
local function label_of(job)
  local runner = (MEMBERS or IS_LOG) and '' or runner_label(job.envelope)
  local priority = job.batch_priority or constraints_of(job).priority
  if (job.batch or '') ~= '' then
    runner = 'b' .. runner
  end
  return priority and runner .. string.format('%d', priority) or runner, priority or 0
end

local used_levels = {}
local function put_in_stream(job)
  local label, priority = label_of(job)
  local stream, prefix = key.ready, ''
  if label ~= '' then
    stream, prefix = key.level .. label, label .. '/'
    if not used_levels[label] then
      used_levels[label] = true
      control_changed = use_level(label, priority, GROUP) or control_changed
    end
  end
  local batch = job.batch or ''
  if job.history == '' and job.inputs == '' and job.constraints ~= '' and batch == '' then
    places[job.id] = prefix .. redis.call('XADD', stream, '*', 'j', job.envelope, 't', job.constraints)
    return
  end
  local fields = {'j', job.envelope}
  if job.history ~= '' then
    fields[3], fields[4] = 'h', job.history
  end
  if job.constraints ~= '' then
    fields[#fields + 1] = 't'
    fields[#fields + 1] = job.constraints
  end
  if job.inputs ~= '' then
    fields[#fields + 1] = 'i'
    fields[#fields + 1] = job.inputs
  end
  if batch ~= '' then
    fields[#fields + 1] = 'b'
    fields[#fields + 1] = batch
  end
  places[job.id] = prefix .. redis.call('XADD', stream, '*', unpack(fields))
end
