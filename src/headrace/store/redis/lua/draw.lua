#!lua flags=allow-oom
-- Read the queue of an ordered group, and have it filled from the log; atomic, so that events of a key come in the order of the log, whoever reads.
-- KEYS: *
-- ARGV: events queue consumer limit pump
-- Returns {entries, last, more}: entries as {receipt, fields}, the last event taken from the log, and 1 if that may have more, 2 if there is no room for more.

local limit = tonumber(ARGV[4])
-- Events that wait behind others of their key are copies: of these not without end.
local BLOCKED_MOST = 100000
local PAGE = math.max(100, math.min(limit * 2, 500))

local function many_blocked()
  local elsewhere = redis.call('XLEN', key.ready) + redis.call('ZCARD', key.scheduled) + redis.call('XLEN', key.dead)
  return redis.call('HLEN', key.jobs) - elsewhere >= BLOCKED_MOST
end

local function take_in(entry)
  local job_key = key_of(field(entry[2], 'j'))
  if job_key == '' then
    -- Not ours: whoever runs it will say so.
    redis.call('XADD', key.ready, '*', unpack(entry[2]))
    return
  end
  local known, job = place_of(job_key), job_of(job_key, entry[2])
  local is_dead = known and string.sub(known, 1, 1) == 'd'
  if known and not is_dead then
    return
  end
  -- With the event that stopped its key, the key goes on: after what came before it.
  if is_dead and freed_by(job) == 'blocked' then
    leave_lane(tie_of(job).k)
  end
  if has_failed(tie_of(job).k) then
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
  local reply = redis.call('XREADGROUP', 'GROUP', GROUP, ARGV[5], 'COUNT', PAGE, 'NOACK', 'STREAMS', key.log, '>')
  local page = reply and reply[1][2] or {}
  local keys, keyed = {}, {}
  for i, entry in ipairs(page) do
    keys[i] = key_of(field(entry[2], 'j'))
    keyed[#keyed + 1] = read_ties(field(entry[2], 't')).k
  end
  read_ahead(places, key.jobs, keys)
  read_ahead(lanes, key.lanes, keyed)
  for _, entry in ipairs(page) do
    -- The log has passed on: whatever is wrong with one, none may be lost.
    if not pcall(take_in, entry) then
      redis.call('XADD', key.ready, '*', unpack(entry[2]))
    end
  end
  return #page
end

local taken, wants = 0, redis.call('XLEN', key.ready) - pending_in(key.ready, GROUP) < limit
local is_full = many_blocked()
if wants and not is_full then
  taken = fill()
end
finish(0, '', {}, '')
local reply = redis.call('XREADGROUP', 'GROUP', GROUP, ARGV[3], 'COUNT', limit, 'STREAMS', key.ready, '>')
local info = group_info(key.log, GROUP)
return {reply and reply[1][2] or {}, info and info.last or '0-0', is_full and 2 or taken == PAGE and 1 or 0}
