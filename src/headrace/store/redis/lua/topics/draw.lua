#!lua flags=allow-oom
-- Fill the queue of an ordered group from the log, if it holds less than is wanted; atomic, so that events of a key enter it in the order of the log, whichever worker asks.
-- KEYS: *
-- ARGV: events:int queue limit:int draw
-- Returns tuple[bytes, int, list[Any]]: {last, more, deaths}: the last event taken from the log, 1 if that may have more, 2 if there is no room for more, and the events that this made dead.

local limit = tonumber(ARGV[3])
-- Blocked events are copies, so their number is limited.
local BLOCKED_MOST = 100000
local PAGE = math.max(100, math.min(limit * 2, 500))

local function many_blocked()
  return redis.call('HLEN', key.parked) - redis.call('ZCARD', key.scheduled) >= BLOCKED_MOST
end

-- The contents of an entry of the log, if it is an event of ours.
local function event_of(fields)
  local envelope, constraints = fields[2], fields[4] or ''
  local job_id = fields[1] == 'j' and (constraints == '' or fields[3] == 't') and id_of(envelope) or ''
  return job_id ~= '' and {id = job_id, envelope = envelope, history = '', constraints = constraints, inputs = ''}
end

local function take_in(job)
  local known = place_of(job.id)
  local is_dead = known and string.sub(known, 1, 1) == 'd'
  if known and not is_dead then
    return
  end
  -- The event that stopped its key comes again: the key goes on, after the events before it.
  if is_dead and freed_by(job) == 'blocked' then
    leave_lane(constraints_of(job).lane, constraints_of(job).width)
  end
  if has_failed(constraints_of(job).lane) then
    if not is_dead then
      fail_with_key(job)
    end
    return
  end
  if is_dead then
    redis.call('XDEL', key.dead, string.sub(known, 2))
  end
  place(job)
end

local function fill()
  local reply = redis.call('XREADGROUP', 'GROUP', GROUP, ARGV[4], 'COUNT', PAGE, 'NOACK', 'STREAMS', key.log, '>')
  local page = reply and reply[1][2] or {}
  local jobs, job_ids, keyed = {}, {}, {}
  for i, entry in ipairs(page) do
    local job = event_of(entry[2])
    jobs[i] = job
    if job then
      job_ids[#job_ids + 1] = job.id
      keyed[#keyed + 1] = constraints_of(job).lane
    end
  end
  get_places(key.jobs, job_ids, places, false)
  read_ahead(lanes, key.lanes, keyed)
  for i, entry in ipairs(page) do
    -- The group's position has moved on, so none may be lost, whatever is wrong with it. Entries
    -- that are not ours go dead as soon as a worker decodes them.
    if not jobs[i] or not pcall(take_in, jobs[i]) then
      redis.call('XADD', key.ready, '*', unpack(entry[2]))
    end
  end
  return #page
end

local wrong = wrong_way()
if wrong then
  -- Before anything is taken from the log: the log does not give it twice.
  return wrong
end
local taken, wants = 0, redis.call('XLEN', key.ready) - pending_in(key.ready, GROUP) < limit
local is_full = many_blocked()
if wants and not is_full then
  taken = fill()
end
finish(0, '', {}, '')
local info = group_info(key.log, GROUP)
return applied({info and info.last or '0-0', is_full and 2 or taken == PAGE and 1 or 0, deaths})
