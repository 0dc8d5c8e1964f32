-- Ordered groups: a dead event may stop its key.

local function on_failure()
  local record = MEMBERS and redis.call('HGET', key.groups, MEMBERS)
  return record and string.match(record, '^1 (%S+)') or 'skip'
end

local function has_failed(lane)
  local record = lane and stop_of(lane)
  return record and string.sub(record, 1, 6) == 'failed'
end

local function stop(lane, state, event)
  redis.call('HSET', key.stopped, lane, state .. ' ' .. string.format('%d', now()) .. ' ' .. event)
  any_stopped = true
end

-- An event whose key has failed goes dead without a run.
local function fail_with_key(job)
  write_dead(job, 'key_failed')
  record_fact('dead', job, 'key_failed', constraints_of(job).lane or '')
end

local function fail_waiting(lane)
  while true do
    local head = redis.call('ZPOPMIN', key.lane .. lane)[1]
    if not head then
      return drop_oldest_dead(10)
    end
    local job = unpark(head)
    if job then
      fail_with_key(job)
    end
  end
end

-- A job in its lane went dead. Whether jobs behind it may go on.
local function goes_on_after(job)
  local lane = MEMBERS and constraints_of(job).lane
  local policy = lane and on_failure() or 'skip'
  if policy == 'block' then
    stop(lane, 'blocked', job.id)
    return false
  elseif policy == 'fail_key' then
    stop(lane, 'failed', job.id)
    fail_waiting(lane)
  end
  return true
end

-- Free the key that this dead job stopped; returns its state, 'blocked' or 'failed', nil if it was not.
local function freed_by(job)
  local lane = MEMBERS and constraints_of(job).lane
  local state, event = string.match(lane and stop_of(lane) or '', '^(%a+) %d+ (.*)$')
  if event ~= job.id then
    return nil
  end
  redis.call('HDEL', key.stopped, lane)
  return state
end
