#!lua flags=allow-oom
-- Read the queue of an ordered group, and have it filled from the log; atomic, so that events of a key come in the order of the log, whoever reads.
-- KEYS: *
-- ARGV: events queue consumer limit pump
-- Returns {entries, last, more}: entries as {receipt, fields}, the last event taken from the log, and whether it may have more.

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
  if known and string.sub(known, 1, 1) == 'd' then
    redis.call('XDEL', key.dead, string.sub(known, 2))
  elseif known then
    return
  end
  if has_failed(tie_of(job).k) then
    fail_with_key(job)
  else
    place(job, unblocked(job))
  end
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
    take_in(entry)
  end
  return #page
end

local taken, wants = 0, redis.call('XLEN', key.ready) - pending_in(key.ready, GROUP) < limit
if wants and not many_blocked() then
  taken = fill()
end
finish(0, '', {}, '')
local reply = redis.call('XREADGROUP', 'GROUP', GROUP, ARGV[3], 'COUNT', limit, 'STREAMS', key.ready, '>')
local info = group_info(key.log, GROUP)
return {reply and reply[1][2] or {}, info and info.last or '0-0', taken == PAGE and 1 or 0}
