-- Lanes: jobs of one key, or of one task, run a few at a time, in their order.

local leave_lane
-- Below: of a job that has the lane of its task besides its own.
local pass_task

local function go_through(job, opened)
  local constraints = constraints_of(job)
  local passes
  if constraints.gathering then
    gather(job, opened ~= nil)
    return false
  elseif constraints.task_lane then
    passes = pass_task(job, constraints, opened)
  else
    passes = pass_gates(job, constraints.limits, opened)
  end
  if passes then
    put_in_stream(job)
  end
  return passes
end

-- Whether the job, which is in its lane if it has one, went to a stream; nil if it went dead, and its place
-- in the lane is free.
local function after_lane(job, opened)
  local fine, answer = pcall(go_through, job, opened)
  if fine then
    return answer
  end
  die_on_the_way(job, answer)
  if job.in_task_lane then
    leave_lane(constraints_of(job).task_lane, constraints_of(job).task_width)
  end
end

-- A lane has the number of jobs in it, the width of all of them (0 if they differ), and the number of the
-- last job that was blocked. If they differ, `widths` counts the jobs in it by width.
local lane_of, write_lanes
do
  -- Most lanes have one job, of width 1, and none that was blocked.
  local ALONE = '1 1 0'

  local function read_lane(name, state)
    local inside, width, last, mixed = string.match(state, '^(%d+) (%d+) (%d+)(.*)$')
    if not last then
      -- Not ours. If jobs are blocked, then others are inside, and will leave.
      last = redis.call('ZRANGE', key.lane .. name, -1, -1, 'WITHSCORES')[2]
      inside = last and 1 or 0
    end
    local lane = {inside = tonumber(inside), width = tonumber(width), last = tonumber(last) or 0, widths = {}}
    for each, count in string.gmatch(mixed or '', ' (%d+):(%d+)') do
      lane.widths[tonumber(each)] = tonumber(count)
    end
    return lane
  end

  lane_of = function(name)
    local state = lanes[name]
    if type(state) == 'table' then
      return state
    elseif state == nil then
      state = redis.call('HGET', key.lanes, name)
    end
    local lane
    if state == ALONE then
      lane = {inside = 1, width = 1, last = 0}
    else
      lane = state and read_lane(name, state) or {inside = 0, last = 0}
    end
    lanes[name] = lane
    return lane
  end

  local function state_text(lane)
    if lane.inside == 1 and lane.width == 1 and lane.last == 0 then
      return ALONE
    end
    local state = string.format('%d %d %d', lane.inside, lane.width or 0, lane.last)
    for width, count in pairs(lane.width == 0 and lane.widths or {}) do
      state = state .. ' ' .. width .. ':' .. count
    end
    return state
  end

  write_lanes = function()
    local states = {}
    for name, lane in pairs(lanes) do
      if type(lane) == 'table' then
        states[name] = lane.inside > 0 and state_text(lane)
      end
    end
    write_all(states, key.lanes)
  end
end

local enter_lane, enter_while_wide
do
  -- One more job of this width is in the lane; with -1, one fewer.
  local function step_in(lane, width, change)
    lane.inside = lane.inside + change
    if lane.width == 0 then
      local count = (lane.widths[width] or 0) + change
      lane.widths[width] = count > 0 and count or nil
    end
  end

  -- Note the width of a new job: if widths differ, the narrowest decides.
  local function agree(lane, width)
    if (lane.width or width) ~= width and lane.width > 0 then
      lane.widths = {[lane.width] = lane.inside}
      lane.width = 0
    elseif lane.width == nil then
      lane.width = width
    end
  end

  -- Whether a job may enter: the lane has fewer jobs than it allows, and than each of them allows.
  local function has_room(lane, width)
    if lane.width == 0 then
      for each in pairs(lane.widths) do
        width = math.min(width, each)
      end
    end
    return lane.inside < width
  end

  -- Whether the job entered this lane; if not, it is blocked there, in `place`.
  enter_lane = function(job, name, width, place)
    local lane, waiting = lane_of(name), key.lane .. name
    width = width or 1
    agree(lane, width)
    -- If all widths are the same, jobs are blocked only while the lane is full.
    if has_room(lane, width) and (lane.width > 0 or redis.call('EXISTS', waiting) == 0) then
      step_in(lane, width, 1)
      return true
    end
    lane.last = lane.last + 1
    redis.call('ZADD', waiting, lane.last, job.id)
    park(job, place)
    return false
  end

  -- The gates of a job that has a lane of its task, from the narrow to the wide: the limits of the task, its lane,
  -- the limit of the queue. While it waits at one it keeps what it took before, which only jobs could use that need
  -- the next one too. Behind them it is in a stream: it has a place in the lane of its task there, and at the limit
  -- of the queue.
  pass_task = function(job, constraints, opened)
    local own, shared = {}, {}
    for _, limit in ipairs(constraints.limits or {}) do
      table.insert(limit[1] == QUEUE_LIMIT and shared or own, limit)
    end
    job.in_task_lane = opened == constraints.task_lane or opened == QUEUE_LIMIT
    if not job.in_task_lane then
      if not pass_gates(job, own, opened) then
        return false
      end
      job.in_task_lane = enter_lane(job, constraints.task_lane, constraints.task_width, 'kt')
    end
    return job.in_task_lane and pass_gates(job, shared, opened)
  end

  -- The width that a job asks of this lane.
  local function width_in(constraints, name)
    return (constraints.lane == name and constraints.width or constraints.task_lane == name and constraints.task_width) or 1
  end

  local function enter_from_line(lane, name, head)
    local job = unpark(head)
    if job then
      local constraints = constraints_of(job)
      local width = width_in(constraints, name)
      step_in(lane, width, 1)
      local went = after_lane(job, constraints.task_lane == name and name or nil)
      if went then
        record_fact('ready', job)
      elseif went == nil and constraints.task_lane ~= name then
        step_in(lane, width, -1)
      elseif went == nil and constraints.lane then
        leave_lane(constraints.lane, constraints.width)
      end
    elseif string.sub(place_of(head) or '', 1, 1) == 'k' then
      -- Only its place is left.
      places[head] = false
    end
  end

  -- Widths differ: the first blocked job enters if there is room for it.
  enter_while_wide = function(lane, name)
    local waiting = key.lane .. name
    while true do
      local head = redis.call('ZRANGE', waiting, 0, 0)[1]
      local body = head and body_of(head)
      if not head or (body and not has_room(lane, width_in(constraints_of(unparked(head, body)), name))) then
        return
      end
      redis.call('ZREM', waiting, head)
      enter_from_line(lane, name, head)
    end
  end

  -- A job of this width, or of width 1, has left the lane.
  leave_lane = function(name, width)
    local lane, waiting = lane_of(name), key.lane .. name
    step_in(lane, width or 1, -1)
    if lane.last == 0 then
      -- No job was blocked since it was last empty.
      return
    elseif (lane.width or 0) == 0 then
      return enter_while_wide(lane, name)
    end
    while lane.inside < lane.width do
      local head = redis.call('ZPOPMIN', waiting)[1]
      if not head then
        return
      end
      enter_from_line(lane, name, head)
    end
  end
end

-- A job that was in a stream has left it, and the lane of its task.
local function leave_task_lane(constraints)
  if constraints.task_lane then
    leave_lane(constraints.task_lane, constraints.task_width)
  end
end

-- The job is due. Whether it went all the way to a stream.
local function place(job, in_lane)
  if IS_LOG then
    put_in_stream(job)
    return true
  end
  local constraints = constraints_of(job)
  local lane = constraints.lane
  if lane and not in_lane then
    local fine, entered = pcall(enter_lane, job, lane, constraints.width, 'k')
    if not fine then
      die_on_the_way(job, entered)
    end
    if not fine or not entered then
      return false
    end
  end
  local went = after_lane(job)
  if went == nil and lane then
    leave_lane(lane, constraints.width)
  end
  return went
end

-- 'when' is '' for now, '+ms' that long from now, '@ms' at that time: returns the time, nil for now.
local function due_of(when)
  if when == '' then
    return nil
  end
  local due = due_at(when, now())
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
