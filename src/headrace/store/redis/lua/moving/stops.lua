-- Ordered groups: what becomes of a key when one of its events goes dead.

local function on_failure()
  local record = MEMBERS and redis.call('HGET', key.groups, MEMBERS)
  return record and string.match(record, '^1 (%S+)') or 'skip'
end

local any_stopped
-- The record of a key that is stopped: 'state since event'.
local function stop_of(lane)
  if any_stopped == nil then
    any_stopped = MEMBERS and redis.call('EXISTS', key.stopped) == 1
  end
  return any_stopped and redis.call('HGET', key.stopped, lane)
end

local function has_failed(lane)
  local record = lane and stop_of(lane)
  return record and string.sub(record, 1, 6) == 'failed'
end

local function stop(lane, state, event)
  redis.call('HSET', key.stopped, lane, state .. ' ' .. string.format('%d', now()) .. ' ' .. event)
  any_stopped = true
end

-- An event whose key has failed goes dead unseen.
local function fail_with_key(job)
  bury(job, 'key_failed')
  tell('dead', job, 'key_failed')
end

local function fail_waiting(lane)
  while true do
    local head = redis.call('ZPOPMIN', key.lane .. lane)[1]
    if not head then
      return
    end
    local job = unpark(head)
    if job then
      fail_with_key(job)
    end
  end
end

-- A job in its lane went dead. Whether those behind it may go on.
local function goes_on_after(job)
  local lane = MEMBERS and tie_of(job).k
  local policy = lane and on_failure() or 'skip'
  if policy == 'block' then
    stop(lane, 'blocked', job.key)
    return false
  elseif policy == 'fail_key' then
    stop(lane, 'failed', job.key)
    fail_waiting(lane)
  end
  return true
end

-- Whether this dead job is the one that stops its lane; if so, it does no longer.
local function unblocked(job)
  local lane = MEMBERS and tie_of(job).k
  local record = lane and stop_of(lane)
  if record and string.match(record, '^blocked %d+ (.*)$') == job.key then
    redis.call('HDEL', key.stopped, lane)
    return true
  end
  return false
end
