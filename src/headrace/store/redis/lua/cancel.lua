#!lua flags=allow-oom
-- Cancel jobs wherever they are; atomic, so that a job is either cancelled or delivered.
-- KEYS: *
-- ARGV: events:int queue running:bool, then *job_ids:bytes
-- Returns list[bytes]: for each job its state now (cancelled, running, dead, done) or its verdict, '' if it is unknown.

local function in_stream(job_id, place)
  local stream, id = entry_at(place)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if not entry then
    return redis.call('GET', key.result .. job_id) or ''
  end
  local pending = redis.pcall('XPENDING', stream, GROUP, id, id, 1)
  if not pending.err and pending[1] then
    if pending[1][2] ~= RETURNED then
      if ARGV[3] == '1' then
        redis.call('HSET', key.cancelling, job_id, '1')
        control_changed = true
      end
      return 'running'
    end
    redis.call('XACK', stream, GROUP, id)
  end
  redis.call('XDEL', stream, id)
  cancelled(job_of(job_id, entry[2]), true)
  return 'cancelled'
end

local function parked(job_id, place)
  local job, in_lane = unpark(job_id), false
  if not job then
    -- Only its place is left.
    places[job_id] = false
    redis.call('ZREM', key.scheduled, job_id)
    return redis.call('GET', key.result .. job_id) or ''
  elseif place == 's' or place == 'S' then
    watch_due()
    redis.call('ZREM', key.scheduled, job_id)
    in_lane = place == 'S' and 'own'
  elseif place == 'k' or place == 'kt' then
    local name = place == 'k' and constraints_of(job).lane or constraints_of(job).task_lane
    in_lane = place == 'kt' and 'own'
    if name then
      redis.call('ZREM', key.lane .. name, job_id)
    end
    if name and lane_of(name).width == 0 then
      -- It may have been the first, with others blocked behind it.
      enter_while_wide(lane_of(name), name)
    end
  elseif place == 'f' then
    redis.call('DEL', key.flow .. job_id)
  else
    redis.call('ZREM', key.line .. string.sub(place, 2), job_id)
    in_lane = string.sub(place, 2) == QUEUE_LIMIT or 'own'
  end
  cancelled(job, in_lane)
  return 'cancelled'
end

-- An event that a worker has from the log. One that waits there cannot be cancelled: it belongs to
-- all groups.
local function in_log(event)
  local id = MEMBERS and get_place(key.log_jobs, event)
  local entry = id and string.find(id, '^%d+%-%d+$') and redis.call('XPENDING', key.log, GROUP, id, id, 1)[1]
  if not entry or entry[2] == RETURNED then
    return ''
  end
  if ARGV[3] == '1' then
    redis.call('HSET', key.cancelling, event, '1')
    control_changed = true
  end
  return 'running'
end

-- What the history has of those of these jobs that are in no place: looked for once, for all.
local kept
local function ended_state(job_id)
  if not kept then
    local missing = {}
    for i = 4, #ARGV do
      missing[#missing + 1] = not place_of(ARGV[i]) and ARGV[i] or nil
    end
    kept = find_ended(missing)
  end
  return kept[job_id] and kept[job_id][4]
end

local function cancel(job_id)
  local place = place_of(job_id)
  if not place then
    return redis.call('GET', key.result .. job_id) or ended_state(job_id) or in_log(job_id)
  elseif is_entry(place) then
    -- Events in a log belong to its groups.
    return IS_LOG and '' or in_stream(job_id, place)
  elseif string.sub(place, 1, 1) == 'd' then
    return 'dead'
  elseif not string.find(place, '^[sSkfg]') then
    -- Not a place: there is nothing to cancel.
    return ''
  end
  return parked(job_id, place)
end

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end
local answers = {}
for i = 4, #ARGV do
  local fine, answer = pcall(cancel, ARGV[i])
  answers[#answers + 1] = fine and answer or ''
end
finish(0, '', {}, '')
return applied(answers)
