-- What all scripts that move jobs share: the time, facts, constraints, and the places of jobs. The
-- files of this folder are prepended to scripts that move jobs, in the order of `script.py`. A
-- job's way: the jobs it waits for, its time, its lane, its batch or its limits, a stream. All checks of types
-- come before the first write, and `finish` comes last.

local EVENTS, QUEUE = tonumber(ARGV[1]), ARGV[2]
-- The group, if this is the queue of one; the log of a topic has none.
local MEMBERS = string.match(QUEUE, '^([^@]+)@')
local GROUP = MEMBERS or WORKERS
local IS_LOG = string.sub(QUEUE, 1, 1) == '@'
local CANCELLED = '\145\169cancelled'
local NIL = '\192'

local clock
local function now()
  clock = clock or now_ms()
  return clock
end

local special
-- Whether any job here has more than its place: mostly none does, and one check is enough.
local function any_special()
  if special == nil then
    special = redis.call('EXISTS', key.children, key.progress, key.cancelling, key.once) > 0
  end
  return special
end

-- Facts that the script itself makes, and their counts.
local facts_made, made, last_made = {}, {}, nil
-- Jobs that the script itself makes dead, for the log, those of a kind together: reason, task, why, one of them, number.
local deaths = {}
local record_fact
do
  local counted = {cancelled = true, dead = true, released = true, replayed = true}
  local known = {}

  local function note_death(job, task, reason, why)
    local name = reason .. ' ' .. why .. ' ' .. task
    local at = known[name]
    if at then
      deaths[at] = deaths[at] + 1
    else
      for _, value in ipairs({reason, task, why, job.id, 1}) do
        deaths[#deaths + 1] = value
      end
      known[name] = #deaths
    end
  end

  record_fact = function(kind, job, detail, why)
    local task = (why or EVENTS > 0) and task_of(job.envelope)
    if why then
      note_death(job, task, detail, why)
    end
    if EVENTS == 0 then
      return
    end
    if counted[kind] then
      local name = kind .. ' ' .. task
      made[name] = (made[name] or 0) + 1
    end
    facts_made[#facts_made + 1] = '\151' .. cmsgpack.pack(kind) .. binary(job.id) .. cmsgpack.pack(task)
      .. '\0\0\0' .. cmsgpack.pack(detail or '')
    last_made = not detail and {kind .. ' ' .. task, job.id}
  end
end

local function job_of(job_id, fields)
  return {
    id = job_id,
    envelope = field(fields, 'j'),
    history = field(fields, 'h'),
    constraints = field(fields, 't'),
    inputs = field(fields, 'i'),
    batch = field(fields, 'b'),
  }
end

-- A function of Lua has at most 200 locals, and so has a script: what only this one needs is inside.
local read_constraints
do
  -- No time or number in constraints is larger.
  local MOST_MS = 1e14
  -- MAX_GATHERED in constraints.py.
  local MOST_GATHERED = 1000

  local function is_whole(value, least, most)
    return type(value) == 'number' and value >= least and value <= most and value % 1 == 0
  end

  local function is_text(value)
    return type(value) == 'string' and value ~= ''
  end

  local function is_limit(limit)
    return type(limit) == 'table' and is_text(limit[1]) and is_whole(limit[2], 1, MOST_MS)
      and is_whole(limit[3], 1, MOST_MS) and (limit[4] == nil or is_whole(limit[4], 0, MOST_MS))
  end

  local function are_limits(limits)
    if type(limits) ~= 'table' then
      return false
    end
    for at, limit in pairs(limits) do
      if type(at) ~= 'number' or not is_limit(limit) then
        return false
      end
    end
    return true
  end

  local function is_gathering(gathering)
    return type(gathering) == 'table' and is_text(gathering[1])
      and string.sub(gathering[1], 1, #BATCH_GATE) == BATCH_GATE
      and is_whole(gathering[2], 1, MOST_GATHERED) and is_whole(gathering[3], 0, MOST_MS)
      and (gathering[4] == nil or is_whole(gathering[4], 0, MOST_MS))
  end

  -- Constraints under the names of `core/job/constraints.py`, which are one letter each in the bytes; nil if
  -- they are malformed in any way. A script that failed over them half way would lose the jobs that it moves.
  local function named_constraints(read)
    if type(read) ~= 'table' then
      return nil
    end
    local lane, width, unique, unique_for_ms, limits, flow = read.k, read.w, read.u, read.f, read.r, read.o
    local task_lane, task_width = read.l, read.n
    local gathering = read.g
    -- Zero, and `debounced` without a name, count as absent.
    local priority, ttl_ms, debounced = read.p ~= 0 and read.p or nil, read.t, unique and read.b
    local sound = (lane == nil or is_text(lane)) and (width == nil or is_whole(width, 1, MOST_MS))
      and (task_lane == nil or is_text(task_lane) and task_lane ~= lane)
      and (task_width == nil or is_whole(task_width, 1, MOST_MS))
      and (unique == nil or is_text(unique))
      and (unique_for_ms == nil or is_whole(unique_for_ms, 1, MOST_MS))
      and (debounced == nil or type(debounced) == 'boolean')
      and (limits == nil or are_limits(limits))
      and (priority == nil or is_whole(priority, 1, 100))
      and (ttl_ms == nil or is_whole(ttl_ms, 0, MOST_MS))
      and (flow == nil or is_text(flow))
      and (gathering == nil or is_gathering(gathering))
    return sound and {
      lane = lane, width = width, unique = unique, unique_for_ms = unique_for_ms, limits = limits,
      priority = priority, ttl_ms = ttl_ms, debounced = debounced, flow = flow,
      task_lane = task_lane, task_width = task_width,
      -- Lanes and limits count single jobs.
      gathering = not lane and not task_lane and not limits and gathering or nil,
    } or nil
  end

  local UNCONSTRAINED = {}
  -- Jobs of one lane mostly have the same constraints.
  local known_constraints = {[''] = UNCONSTRAINED}
  read_constraints = function(raw)
    local constraints = known_constraints[raw]
    if not constraints and string.sub(raw, 1, 3) == '\129\161k' and string.byte(raw, 4) == 156 + #raw then
      -- Only a short key, as in most constraints: recognised by its length.
      constraints = {lane = string.sub(raw, 5)}
      known_constraints[raw] = constraints
    elseif not constraints then
      local fine, read, more = pcall(cmsgpack.unpack, raw)
      constraints = fine and more == nil and named_constraints(read) or UNCONSTRAINED
      known_constraints[raw] = constraints
    end
    return constraints
  end
end

local function constraints_of(job)
  return read_constraints(job.constraints)
end

-- The index, the bodies of parked jobs and the lanes are written once, by `finish`, since a script may move
-- a thousand jobs. Until then new values are here, `false` for removed ones.
local places, bodies, lanes = {}, {}, {}

-- An error reply if a key that any job may need is not of its type.
local function wrong_way()
  return wrong_type({
    [key.ready] = 'stream', [key.scheduled] = 'zset', [key.parked] = 'hash',
    [key.dead] = 'stream', [key.lanes] = 'hash', [key.gates] = 'zset', [key.levels] = 'zset',
    [key.flow_messages] = 'stream', [key.events] = 'stream',
  })
end

-- The same for keys that only some jobs need.
local function wrong_special()
  if any_special() then
    return wrong_type({
      [key.children] = 'hash', [key.progress] = 'hash', [key.cancelling] = 'hash', [key.once] = 'hash',
    })
  end
end

local function place_of(job_id)
  local new = places[job_id]
  if new ~= nil then
    return new
  end
  return get_place(key.jobs, job_id)
end

local function body_of(job_id)
  local new = bodies[job_id]
  if new ~= nil then
    return new
  end
  return redis.call('HGET', key.parked, job_id)
end

-- Read the bodies of these jobs, or the states of these lanes, in one command.
local function read_ahead(cache, name, wanted)
  for i = 1, #wanted, 4000 do
    local last = math.min(i + 3999, #wanted)
    for at, value in ipairs(redis.call('HMGET', name, unpack(wanted, i, last))) do
      cache[wanted[i + at - 1]] = value
    end
  end
end

local function write_all(cache, name)
  local new, gone = {}, {}
  for field_name, value in pairs(cache) do
    if value then
      new[#new + 1] = field_name
      new[#new + 1] = value
    else
      gone[#gone + 1] = field_name
    end
  end
  for i = 1, #new, 4000 do
    redis.call('HSET', name, unpack(new, i, math.min(i + 3999, #new)))
  end
  for i = 1, #gone, 4000 do
    redis.call('HDEL', name, unpack(gone, i, math.min(i + 3999, #gone)))
  end
end

local function write_places()
  local new, gone = {}, {}
  for job_id, place in pairs(places) do
    if place then
      new[#new + 1] = job_id
      new[#new + 1] = place
    else
      gone[#gone + 1] = job_id
    end
  end
  set_places(key.jobs, new)
  remove_places(key.jobs, gone)
end

local function park(job, place)
  bodies[job.id] = #job.history .. ',' .. #job.constraints .. ',' .. #job.inputs .. ':' .. job.history .. job.constraints .. job.inputs .. job.envelope
  places[job.id] = place
end

local function unpark(job_id)
  local body = body_of(job_id)
  if body then
    bodies[job_id] = false
    return unparked(job_id, body)
  end
end

local any_stopped
-- The record of a key that is stopped: 'state since event'.
local function stop_of(lane)
  if any_stopped == nil then
    any_stopped = MEMBERS and redis.call('EXISTS', key.stopped) == 1
  end
  return any_stopped and redis.call('HGET', key.stopped, lane)
end
