-- How a job goes from place to place; stands, after the prelude, at the head of scripts that move
-- jobs. Its way: the jobs it waits for, its time, its lane, its limits, a stream. Nothing here
-- fails half way, and `finish` must come last.

local EVENTS, QUEUE = tonumber(ARGV[1]), ARGV[2]
local GROUP, RETURNED = 'workers', 'returned'
local KEPT_MS = 600000
local CANCELLED = '\145\169cancelled'
local NIL = '\192'

local clock
local function now()
  clock = clock or now_ms()
  return clock
end

local special
-- Whether any job here has something beside its place: mostly none does, and one look is enough.
local function any_special()
  if special == nil then
    special = redis.call('EXISTS', key.children, key.progress, key.cancelling, key.marks) > 0
  end
  return special
end

-- Facts that the script itself makes, and what is to be counted of them.
local told, made = {}, {}
local counted = {cancelled = true, dead = true, replayed = true}
local function tell(kind, job, detail)
  if EVENTS == 0 then
    return
  end
  local task = task_of(job.envelope)
  if counted[kind] then
    local name = kind .. ' ' .. task
    made[name] = (made[name] or 0) + 1
  end
  told[#told + 1] = '\151' .. cmsgpack.pack(kind) .. binary(job.key) .. cmsgpack.pack(task)
    .. '\0\0\0' .. cmsgpack.pack(detail or '')
end

local function job_of(job_key, fields)
  return {
    key = job_key,
    envelope = field(fields, 'j'),
    past = field(fields, 'h'),
    ties = field(fields, 't'),
    inputs = field(fields, 'i'),
  }
end

local UNTIED = {}
-- Jobs of one lane mostly have the very same ties.
local known_ties = {[''] = UNTIED}
local function tie_of(job)
  local tie = known_ties[job.ties]
  if not tie then
    local fine, read = pcall(cmsgpack.unpack, job.ties)
    tie = fine and read or UNTIED
    known_ties[job.ties] = tie
  end
  return tie
end

-- The index, the bodies of parked jobs and the lanes are written once, by `finish`, since a script
-- may move a thousand jobs; until then what is new is here, `false` for what is gone.
local places, bodies, lanes = {}, {}, {}

local function place_of(job_key)
  local new = places[job_key]
  if new ~= nil then
    return new
  end
  return redis.call('HGET', key.jobs, job_key)
end

local function body_of(job_key)
  local new = bodies[job_key]
  if new ~= nil then
    return new
  end
  return redis.call('HGET', key.parked, job_key)
end

-- Have the places of these jobs, or the states of these lanes, read at once.
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

local function park(job, place)
  bodies[job.key] = #job.past .. ',' .. #job.ties .. ',' .. #job.inputs .. ':' .. job.past .. job.ties .. job.inputs .. job.envelope
  places[job.key] = place
end

local function unpark(job_key)
  local body = body_of(job_key)
  if body then
    bodies[job_key] = false
    return unparked(job_key, body)
  end
end

-- Time

local due_before
local function first_due()
  local due = redis.call('ZRANGE', key.scheduled, 0, 0, 'WITHSCORES')[2]
  local gate = redis.call('ZRANGE', key.gates, 0, 0, 'WITHSCORES')[2]
  if due and gate then
    return math.min(tonumber(due), tonumber(gate))
  end
  return tonumber(due or gate) or false
end

-- To be called before what is due changes: those who sleep until then must be told.
local function watch_due()
  if due_before == nil then
    due_before = first_due()
  end
end

local function schedule(job, due, place)
  watch_due()
  redis.call('ZADD', key.scheduled, string.format('%d', due), job.key)
  park(job, place)
end

-- Streams

local control_changed = false

local function stream_of(level)
  return level == '0' and key.ready or key.level .. level
end

-- The stream and the entry of a place or receipt.
local function entry_at(place)
  local level, id = string.match(place, '^(%d+)/(.+)$')
  if level then
    return key.level .. level, id
  end
  return key.ready, place
end

-- Priorities in use, the highest first.
local function levels()
  local found = redis.call('ZREVRANGE', key.levels, 0, -1)
  found[#found + 1] = '0'
  return found
end

local function put_in_stream(job)
  local level = tie_of(job).p
  local stream, prefix = key.ready, ''
  if level then
    level = string.format('%d', level)
    stream, prefix = key.level .. level, level .. '/'
    if redis.call('ZADD', key.levels, level, level) == 1 then
      redis.pcall('XGROUP', 'CREATE', stream, GROUP, '0', 'MKSTREAM')
      control_changed = true
    end
  end
  local fields = {'j', job.envelope}
  if job.past ~= '' then
    fields[3], fields[4] = 'h', job.past
  end
  if job.ties ~= '' then
    fields[#fields + 1] = 't'
    fields[#fields + 1] = job.ties
  end
  if job.inputs ~= '' then
    fields[#fields + 1] = 'i'
    fields[#fields + 1] = job.inputs
  end
  places[job.key] = prefix .. redis.call('XADD', stream, '*', unpack(fields))
end

-- Limits. A job that passed its gates and has not begun is counted as if it had.

local function starts_within(limit)
  local starts = key.starts .. limit[1]
  local oldest = redis.call('LINDEX', starts, 0)
  while oldest and tonumber(oldest) + limit[3] <= now() do
    redis.call('LPOP', starts)
    oldest = redis.call('LINDEX', starts, 0)
  end
  return redis.call('LLEN', starts), oldest
end

-- In how many ms one more may pass: 0 for now, nil if only another's end can tell.
local function wait_for(limit)
  local started, oldest = starts_within(limit)
  if started + redis.call('SCARD', key.passed .. limit[1]) >= limit[2] then
    return oldest and tonumber(oldest) + limit[3] - now()
  end
  local burst = limit[4] or 0
  if burst > 0 then
    local next_at = tonumber(redis.call('GET', key.pace .. limit[1]) or 0)
    return math.max(0, math.ceil(next_at - now() - (burst - 1) * limit[3] / limit[2]))
  end
  return 0
end

local function pass(limit, job_key)
  redis.call('SADD', key.passed .. limit[1], job_key)
  if (limit[4] or 0) > 0 then
    local pace, interval = key.pace .. limit[1], limit[3] / limit[2]
    local next_at = math.max(tonumber(redis.call('GET', pace) or 0), now()) + interval
    redis.call('SET', pace, string.format('%.3f', next_at), 'PX', limit[3] + 1000)
  end
end

local function count_start(limit)
  local starts = key.starts .. limit[1]
  redis.call('RPUSH', starts, string.format('%d', now()))
  redis.call('PEXPIRE', starts, limit[3] + 1000)
end

-- When gate `name` may let the next one pass.
local function arm(name, wait)
  watch_due()
  if wait then
    redis.call('ZADD', key.gates, string.format('%d', now() + wait), name)
  else
    redis.call('ZREM', key.gates, name)
  end
end

local function wait_at(name, job, wait, in_front)
  local line = key.line .. name
  local edge = in_front and 0 or -1
  local score = tonumber(redis.call('ZRANGE', line, edge, edge, 'WITHSCORES')[2] or 0)
  redis.call('ZADD', line, score + (in_front and -1 or 1), job.key)
  park(job, 'g' .. name)
  if wait and not redis.call('ZSCORE', key.gates, name) then
    arm(name, wait)
  end
end

-- Let the job pass all of its limits, or have it wait at the first that is closed; `opened` is the
-- gate that just let it through.
local function pass_gates(job, opened)
  local limits = tie_of(job).r
  if not limits then
    return true
  end
  for _, limit in ipairs(limits) do
    local others = limit[1] ~= opened and redis.call('EXISTS', key.line .. limit[1]) == 1
    local wait = wait_for(limit)
    if others or wait ~= 0 then
      wait_at(limit[1], job, wait)
      return false
    end
  end
  for _, limit in ipairs(limits) do
    pass(limit, job.key)
  end
  return true
end

-- The job gives up what it has not used: the next in line may come at once.
local function give_back(limits, job_key)
  for _, limit in ipairs(limits) do
    if redis.call('SREM', key.passed .. limit[1], job_key) == 1 and redis.call('EXISTS', key.line .. limit[1]) == 1 then
      arm(limit[1], 0)
    end
  end
end

-- Lanes

local function after_lane(job, opened)
  if pass_gates(job, opened) then
    put_in_stream(job)
    return true
  end
  return false
end

-- A lane has the jobs in it, the width that all of its jobs agree on (0 if they do not), and the
-- number of the last that came to wait.
local function lane_of(name)
  local state = lanes[name]
  if type(state) ~= 'table' then
    if state == nil then
      state = redis.call('HGET', key.lanes, name)
    end
    local inside, width, last = string.match(state or '', '^(%d+) (%d+) (%d+)$')
    state = {inside = tonumber(inside) or 0, width = tonumber(width), last = tonumber(last) or 0}
    lanes[name] = state
  end
  return state
end

local function enter_lane(job)
  local tie = tie_of(job)
  local lane, width, waiting = lane_of(tie.k), tie.w or 1, key.lane .. tie.k
  lane.width = lane.width or width
  if lane.width ~= width then
    lane.width = 0
  end
  -- Where all agree, somebody waits only if the lane is full.
  if lane.inside < width and (lane.width > 0 or redis.call('EXISTS', waiting) == 0) then
    lane.inside = lane.inside + 1
    return true
  end
  lane.last = lane.last + 1
  redis.call('ZADD', waiting, lane.last, job.key)
  park(job, 'k')
  return false
end

local function enter_from_line(lane, head)
  local job = unpark(head)
  if job then
    lane.inside = lane.inside + 1
    if after_lane(job) then
      tell('ready', job)
    end
  end
end

-- Jobs that do not agree on the width: the first in line decides whether it may enter.
local function enter_while_wide(lane, waiting)
  while true do
    local head = redis.call('ZRANGE', waiting, 0, 0)[1]
    local body = head and body_of(head)
    if not head or (body and lane.inside >= (tie_of(unparked(head, body)).w or 1)) then
      return
    end
    redis.call('ZREM', waiting, head)
    enter_from_line(lane, head)
  end
end

local function leave_lane(name)
  local lane, waiting = lane_of(name), key.lane .. name
  lane.inside = lane.inside - 1
  if (lane.width or 0) == 0 then
    return enter_while_wide(lane, waiting)
  end
  while lane.inside < lane.width do
    local head = redis.call('ZPOPMIN', waiting)[1]
    if not head then
      return
    end
    enter_from_line(lane, head)
  end
end

local function write_lanes()
  local states = {}
  for name, lane in pairs(lanes) do
    if type(lane) == 'table' then
      states[name] = lane.inside > 0 and lane.inside .. ' ' .. lane.width .. ' ' .. lane.last
    end
  end
  write_all(states, key.lanes)
end

-- The job's time has come. Whether it went all the way to a stream.
local function place(job, in_lane)
  if tie_of(job).k and not in_lane and not enter_lane(job) then
    return false
  end
  return after_lane(job)
end

-- 'when' is '' for now, '+ms' so long from now, '@ms' at that time: the moment, nil for now.
local function due_of(when)
  if when == '' then
    return nil
  end
  local due = tonumber(string.sub(when, 2))
  if string.sub(when, 1, 1) == '+' then
    -- One more: `now` has lost its fraction, and a job must never start early.
    due = now() + due + 1
  end
  return due > now() and due or nil
end

-- Where the job goes first: 'scheduled', 'blocked' or 'sent'.
local function place_at(job, when)
  local due = due_of(when)
  if due then
    schedule(job, due, 's')
    return 'scheduled'
  end
  return place(job) and 'sent' or 'blocked'
end

-- Ends

local finished = {}
-- What is to be told to those who wait for a job: {child queue, child, parent, state, value, anyway}
local agenda = {}

local function tell_children(parent, state, value)
  local records = redis.call('HGET', key.children, parent)
  if not records then
    return
  end
  redis.call('HDEL', key.children, parent)
  local at = 1
  while at <= #records do
    local queue, child, anyway, start = string.match(records, '^(%d+),(%d+),(%d):()', at)
    local split = start + tonumber(queue)
    at = split + tonumber(child)
    queue, child = string.sub(records, start, split - 1), string.sub(records, split, at - 1)
    if queue == '' then
      -- Not a child but a job that this one stands for, with children of its own.
      tell_children(child, state, value)
    else
      agenda[#agenda + 1] = {queue, child, parent, state, value, anyway == '1'}
    end
  end
end

-- What a job with ties holds, and gives up with its end.
local function release(job_key, tie, in_lane)
  if tie.u then
    local unique = key.unique .. tie.u
    if redis.call('GET', unique) == job_key then
      if tie.f then
        redis.call('PEXPIRE', unique, tie.f)
      else
        redis.call('DEL', unique)
      end
    end
  end
  if tie.r then
    give_back(tie.r, job_key)
  end
  if tie.k and in_lane then
    leave_lane(tie.k)
  end
end

-- All that an end entails. The job's place is the caller's to change.
local function ended(job_key, tie, in_lane, state, value)
  release(job_key, tie, in_lane)
  if any_special() then
    redis.call('HDEL', key.progress, job_key)
    redis.call('HDEL', key.cancelling, job_key)
    if state ~= 'dead' then
      redis.call('HDEL', key.marks, job_key)
    end
    tell_children(job_key, state, value)
  end
end

local function keep_verdict(job_key, verdict, ttl)
  if verdict ~= '' and tonumber(ttl) > 0 then
    redis.call('SET', key.result .. job_key, verdict, 'PX', ttl)
  end
end

local function cancelled(job, in_lane)
  places[job.key] = false
  keep_verdict(job.key, CANCELLED, tie_of(job).t or KEPT_MS)
  finished[#finished + 1] = binary(job.key)
  tell('cancelled', job)
  ended(job.key, tie_of(job), in_lane, 'cancelled', '')
end

local function bury(job, reason)
  local id = redis.call('XADD', key.dead, '*', 'k', job.key, 'r', reason, 'j', job.envelope, 'h', job.past, 't', job.ties, 'i', job.inputs)
  places[job.key] = 'd' .. id
end

local function failed_by_parent(job)
  bury(job, 'parent_failed')
  local verdict = '\149\164dead\196\0' .. cmsgpack.pack('parent_failed') .. '\160' .. cmsgpack.pack('a job that it waited for failed')
  keep_verdict(job.key, verdict, tie_of(job).t or KEPT_MS)
  finished[#finished + 1] = binary(job.key)
  tell('dead', job, 'parent_failed')
  ended(job.key, tie_of(job), false, 'dead', '')
end

-- Flows: `flow` + child has '@' all parents in order, '#' how many are missing, '+' the child's own
-- time, and the result of each parent that has ended.

local function parents_in(names)
  local parents, at = {}, 1
  while at <= #names do
    local size, start = string.match(names, '^(%d+):()', at)
    at = start + tonumber(size)
    parents[#parents + 1] = string.sub(names, start, at - 1)
  end
  return parents
end

local function inputs_of(flow)
  local parents = parents_in(redis.call('HGET', flow, '@'))
  local parts = {array(#parents)}
  for i = 1, #parents, 1000 do
    for _, value in ipairs(redis.call('HMGET', flow, unpack(parents, i, math.min(i + 999, #parents)))) do
      parts[#parts + 1] = value or NIL
    end
  end
  return table.concat(parts)
end

local function arrive(child, parent, state, value, anyway)
  local flow = key.flow .. child
  if place_of(child) ~= 'f' then
    return
  end
  if redis.call('HSETNX', flow, parent, value == '' and NIL or value) == 0 then
    return
  end
  if state ~= 'done' and not anyway then
    redis.call('DEL', flow)
    local job = unpark(child)
    if state == 'dead' then
      failed_by_parent(job)
    else
      cancelled(job, false)
    end
  elseif redis.call('HINCRBY', flow, '#', -1) == 0 then
    local job, when = unpark(child), redis.call('HGET', flow, '+') or ''
    job.inputs = inputs_of(flow)
    redis.call('DEL', flow)
    if place_at(job, when) == 'sent' then
      tell('ready', job)
    end
  end
end

local posted = false
local function post(news)
  redis.call('XADD', key.outbox, '*', 'q', news[1], 'k', news[2], 'p', news[3], 's', news[4], 'v', news[5], 'a', news[6] and '1' or '0')
  posted = true
end

-- One ending may end or free thousands of others: a bounded number now, the rest by the courier.
local function run_agenda()
  local at = 1
  while agenda[at] do
    local news = agenda[at]
    if news[1] ~= QUEUE or at > 500 then
      post(news)
    else
      arrive(news[2], news[3], news[4], news[5], news[6])
    end
    at = at + 1
  end
end

-- Write down what happened, and wake those whom it concerns.
local function finish(count, facts, lost, counts)
  run_agenda()
  write_all(places, key.jobs)
  write_all(bodies, key.parked)
  write_lanes()
  record(EVENTS, count + #told, facts .. table.concat(told), lost, counts, made)
  if #finished > 0 then
    redis.call('PUBLISH', key.finished_channel, array(#finished) .. table.concat(finished))
  end
  if posted or (due_before ~= nil and first_due() ~= due_before) then
    redis.call('PUBLISH', key.due_channel, '')
  end
  if control_changed then
    redis.call('PUBLISH', key.control_channel, '')
  end
end
