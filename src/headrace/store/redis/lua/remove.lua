#!lua flags=allow-oom
-- Remove a queue with all that it holds, a thousand jobs at a time; atomic, so that no job comes between the check and the removal.
-- KEYS: *
-- ARGV: events:int queue force:bool unused_ms:int
-- Returns int: how many jobs it still holds, 0 if it is gone; -1 if it was used within the last `unused_ms`, unless that is 0; -2 if it has messages for other queues.

local AT_ONCE = 1000

local function is_used(unused_ms)
  local event = redis.pcall('XREVRANGE', key.events, '+', '-', 'COUNT', 1)[1]
  local last = math.max(
    tonumber(event and string.match(event[1], '^%d+') or 0),
    tonumber(redis.pcall('HGET', key.reclaims, 'at') or 0),
    tonumber(redis.pcall('ZREVRANGE', key.ticks, 0, 0, 'WITHSCORES')[2] or 0)
  )
  return now() - last < unused_ms or redis.call('EXISTS', key.paused) == 1
end

local streams = streams_in_use()
local held = jobs_held(streams)
if held > 0 and ARGV[3] ~= '1' then
  return held
elseif ARGV[4] ~= '0' and is_used(tonumber(ARGV[4])) then
  return -1
end

-- The keys that have the name of a job, or of its lane, name or limits, in theirs.
local function forget_names(job)
  local constraints = constraints_of(job)
  local gone = {key.flow .. job.id, key.result .. job.id, key.journal .. job.id}
  if constraints.lane then
    gone[#gone + 1] = key.lane .. constraints.lane
  end
  if constraints.task_lane then
    gone[#gone + 1] = key.lane .. constraints.task_lane
  end
  if constraints.unique then
    gone[#gone + 1] = key.unique .. constraints.unique
  end
  if constraints.flow then
    gone[#gone + 1] = key.flow_jobs .. constraints.flow
    gone[#gone + 1] = key.flow_counts .. constraints.flow
  end
  local gates = {TASK_GATE .. task_of(job.envelope)}
  if constraints.gathering then
    gates[2] = constraints.gathering[1]
  end
  for _, limit in ipairs(constraints.limits or {}) do
    gates[#gates + 1] = limit[1]
  end
  for _, gate in ipairs(gates) do
    gone[#gone + 1] = key.line .. gate
    gone[#gone + 1] = key.starts .. gate
    gone[#gone + 1] = key.passed .. gate
    gone[#gone + 1] = key.pace .. gate
  end
  redis.call('UNLINK', unpack(gone))
end

local left = AT_ONCE
local function forget_jobs(jobs)
  local job_ids = {}
  for i, job in ipairs(jobs) do
    local place = place_of(job.id) or ''
    pcall(forget_names, job)
    pcall(notify_children, job.id, string.sub(place, 1, 1) == 'd' and 'forgotten' or 'cancelled', '')
    job_ids[i] = job.id
  end
  remove_places(key.jobs, job_ids)
  left = left - #jobs
end

local function forget_parked()
  local found = redis.pcall('HSCAN', key.parked, '0', 'COUNT', left)
  local jobs, job_ids = {}, {}
  for i = 1, found.err and 0 or #found[2], 2 do
    jobs[#jobs + 1] = unparked(found[2][i], found[2][i + 1])
    job_ids[#job_ids + 1] = found[2][i]
  end
  forget_jobs(jobs)
  for i = 1, #job_ids, 4000 do
    redis.call('HDEL', key.parked, unpack(job_ids, i, math.min(i + 3999, #job_ids)))
    redis.pcall('ZREM', key.scheduled, unpack(job_ids, i, math.min(i + 3999, #job_ids)))
  end
end

local function forget_in(stream)
  local page = redis.pcall('XRANGE', stream, '-', '+', 'COUNT', math.max(1, left))
  local jobs, entries = {}, {}
  for i, entry in ipairs(page.err and {} or page) do
    local job_id = stream == key.dead and field(entry[2], 'k') or id_of(field(entry[2], 'j'))
    jobs[i], entries[i] = job_of(job_id, entry[2]), entry[1]
  end
  forget_jobs(jobs)
  if #entries > 0 then
    redis.call('XTRIM', stream, 'MINID', id_after(entries[#entries]))
  end
end

streams[#streams + 1] = key.dead
forget_parked()
for _, stream in ipairs(streams) do
  if left > 0 then
    forget_in(stream)
  end
end
-- Those that wait in other queues for jobs of this one hear of it before it is gone.
for _, ended in ipairs(agenda) do
  if ended[1] ~= QUEUE then
    send_message(ended)
  end
end
if left <= 0 then
  held = jobs_held(streams_in_use())
  if held > 0 then
    return applied(held)
  end
end
local messages = redis.pcall('XLEN', key.flow_messages)
if type(messages) == 'number' and messages > 0 then
  return applied(-2)
end
for _, stream in ipairs(streams) do
  redis.call('UNLINK', stream)
end
for _, shelf in ipairs(shelves_of()) do
  redis.call('UNLINK', key.history .. shelf[1])
end
redis.call('UNLINK', key.scheduled, key.parked, key.lanes, key.gates, key.children,
  key.flow_messages, key.cancelling, key.paused, key.progress, key.once, key.ticks, key.events, key.facts,
  key.shelves, key.epoch, key.reclaims, key.promoter, key.flow_relay, key.levels
)
redis.call('PUBLISH', key.control_channel, '')
return applied(0)
