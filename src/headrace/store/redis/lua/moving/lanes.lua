-- Lanes: jobs of one key, a few at a time, in the order in which they came.

-- In ends.lua: the end of a job that something in the store keeps from moving.
local die_on_the_way

local function go_through(job, opened)
  if pass_gates(job, opened) then
    put_in_stream(job)
    return true
  end
  return false
end

-- Whether the job, which is in its lane if it has one, went to a stream; nil if it died on the way:
-- its place in the lane is free then.
local function after_lane(job, opened)
  local fine, answer = pcall(go_through, job, opened)
  if fine then
    return answer
  end
  die_on_the_way(job, answer)
end

-- A lane has the jobs in it, the width that all of its jobs agree on (0 if they do not), and the
-- number of the last that came to wait. Where they do not agree, `widths` has how many of those in it
-- have which.
local function lane_of(name)
  local state = lanes[name]
  if type(state) ~= 'table' then
    if state == nil then
      state = redis.call('HGET', key.lanes, name)
    end
    local inside, width, last, mixed = string.match(state or '', '^(%d+) (%d+) (%d+)(.*)$')
    if state and not last then
      -- Anyone's bytes. Whoever waits does so because someone is inside, who will leave.
      last = redis.call('ZRANGE', key.lane .. name, -1, -1, 'WITHSCORES')[2]
      inside = last and 1 or 0
    end
    state = {inside = tonumber(inside) or 0, width = tonumber(width), last = tonumber(last) or 0, widths = {}}
    for each, count in string.gmatch(mixed or '', ' (%d+):(%d+)') do
      state.widths[tonumber(each)] = tonumber(count)
    end
    lanes[name] = state
  end
  return state
end

-- One more job of this width is in the lane; with -1, one fewer.
local function step_in(lane, width, change)
  lane.inside = lane.inside + change
  if lane.width == 0 then
    local count = (lane.widths[width] or 0) + change
    lane.widths[width] = count > 0 and count or nil
  end
end

-- The width of a job that comes: where it differs from that of others, the narrowest decides.
local function agree(lane, width)
  if (lane.width or width) ~= width and lane.width > 0 then
    lane.widths = {[lane.width] = lane.inside}
    lane.width = 0
  elseif lane.width == nil then
    lane.width = width
  end
end

-- Whether a job may enter: there are fewer in the lane than it allows, and than any of them does.
local function has_room(lane, width)
  for each in pairs(lane.width == 0 and lane.widths or {}) do
    width = math.min(width, each)
  end
  return lane.inside < width
end

local function enter_lane(job)
  local constraints = constraints_of(job)
  local lane, width, waiting = lane_of(constraints.lane), constraints.width or 1, key.lane .. constraints.lane
  agree(lane, width)
  -- Where all agree, somebody waits only if the lane is full.
  if has_room(lane, width) and (lane.width > 0 or redis.call('EXISTS', waiting) == 0) then
    step_in(lane, width, 1)
    return true
  end
  lane.last = lane.last + 1
  redis.call('ZADD', waiting, lane.last, job.id)
  park(job, 'k')
  return false
end

local function enter_from_line(lane, head)
  local job = unpark(head)
  if job then
    local width = constraints_of(job).width or 1
    step_in(lane, width, 1)
    local went = after_lane(job)
    if went then
      tell('ready', job)
    elseif went == nil then
      step_in(lane, width, -1)
    end
  elseif place_of(head) == 'k' then
    -- Nothing of it is left but its place.
    places[head] = false
  end
end

-- Jobs that do not agree on the width: the first in line enters if there is room for it.
local function enter_while_wide(lane, waiting)
  while true do
    local head = redis.call('ZRANGE', waiting, 0, 0)[1]
    local body = head and body_of(head)
    if not head or (body and not has_room(lane, constraints_of(unparked(head, body)).width or 1)) then
      return
    end
    redis.call('ZREM', waiting, head)
    enter_from_line(lane, head)
  end
end

-- A job of this width has left the lane; if none is given, of width 1.
local function leave_lane(name, width)
  local lane, waiting = lane_of(name), key.lane .. name
  step_in(lane, width or 1, -1)
  if lane.last == 0 then
    -- Nobody has had to wait since it was last empty.
    return
  elseif (lane.width or 0) == 0 then
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

local function state_of_lane(lane)
  local state = lane.inside .. ' ' .. (lane.width or 0) .. ' ' .. lane.last
  for width, count in pairs(lane.widths) do
    state = state .. ' ' .. width .. ':' .. count
  end
  return state
end

local function write_lanes()
  local states = {}
  for name, lane in pairs(lanes) do
    if type(lane) == 'table' then
      states[name] = lane.inside > 0 and state_of_lane(lane)
    end
  end
  write_all(states, key.lanes)
end

-- The job's time has come. Whether it went all the way to a stream.
local function place(job, in_lane)
  if IS_LOG then
    put_in_stream(job)
    return true
  end
  local lane = constraints_of(job).lane
  if lane and not in_lane then
    local fine, entered = pcall(enter_lane, job)
    if not fine then
      die_on_the_way(job, entered)
    end
    if not fine or not entered then
      return false
    end
  end
  local went = after_lane(job)
  if went == nil and lane then
    leave_lane(lane, constraints_of(job).width)
  end
  return went
end

-- 'when' is '' for now, '+ms' so long from now, '@ms' at that time: the moment, nil for now.
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
