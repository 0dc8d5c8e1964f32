-- Lanes: jobs of one key, a few at a time, in the order in which they came.

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

local function write_lanes()
  local states = {}
  for name, lane in pairs(lanes) do
    if type(lane) == 'table' then
      states[name] = lane.inside > 0 and lane.inside .. ' ' .. (lane.width or 0) .. ' ' .. lane.last
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
