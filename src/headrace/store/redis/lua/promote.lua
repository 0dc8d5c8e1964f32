#!lua flags=allow-oom
-- Let jobs go on that are due; atomic, so that a job is never in two places or none, and by the server's clock, so that it is never early.
-- KEYS: *
-- ARGV: events:int queue consumer:str limit:int ticket:int
-- Returns tuple[int, int, list[Any]]: {moved, wait, deaths}: `wait` in ms until there is something to do here, 0 for at once, -1 if nothing is scheduled; and the jobs that this made dead.

local holder = redis.call('GET', key.promoter)
local held_for = holder and redis.call('PTTL', key.promoter) or 0
-- A ticket that lasts longer than any was taken before the clock was set back.
if holder and holder ~= ARGV[3] and held_for <= tonumber(ARGV[5]) then
  return {0, math.max(held_for, 1), {}}
end

local limit, moved = tonumber(ARGV[4]), 0
-- No notification: the caller is the one that sleeps until the next is due, and gets the answer.
due_before = false

local function go_on(job, in_lane)
  local constraints = constraints_of(job)
  if constraints.debounced and redis.call('GET', key.unique .. constraints.unique) == job.id then
    redis.call('DEL', key.unique .. constraints.unique)
  end
  if place(job, in_lane) then
    record_fact('ready', job)
  end
end

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end

local due = redis.call('ZRANGE', key.scheduled, '-inf', string.format('%d', now()), 'BYSCORE', 'LIMIT', 0, limit)
if #due > 0 then
  read_ahead(bodies, key.parked, due)
  get_places(key.jobs, due, places, false)
  redis.call('ZREM', key.scheduled, unpack(due))
  for _, job_id in ipairs(due) do
    local before, job = place_of(job_id), unpark(job_id)
    if job then
      safely(job, go_on, job, before == 'S')
    elseif before == 's' or before == 'S' then
      -- Only its place is left.
      places[job_id] = false
    end
  end
  moved = #due
end

-- How long gate `name` stays closed for the job at its head: 0 if it may pass, nil if unknown.
local function wait_of(name, job)
  for _, each in ipairs(constraints_of(job).limits or {}) do
    if each[1] == name then
      return wait_for(each)
    end
  end
  if redis.call('SISMEMBER', key.paused, paused_at(name) or '') == 1 then
    return nil
  end
  return 0
end

local function open(name)
  local line = key.line .. name
  while true do
    local head = redis.call('ZRANGE', line, 0, 0)[1]
    if not head then
      return arm(name, nil)
    end
    local body = body_of(head)
    local job = body and unparked(head, body)
    local wait = 0
    if job then
      wait = wait_of(name, job)
    end
    if not wait then
      return arm(name, nil)
    elseif wait > 0 then
      return arm(name, wait)
    elseif moved >= limit then
      return arm(name, 0)
    end
    redis.call('ZREM', line, head)
    if job then
      bodies[head] = false
      moved = moved + 1
      local went = after_lane(job, name)
      if went then
        record_fact('ready', job)
      elseif went == nil and constraints_of(job).lane then
        leave_lane(constraints_of(job).lane, constraints_of(job).width)
      end
    elseif places[head] == nil and string.sub(place_of(head) or '', 1, 1) == 'g' then
      places[head] = false
    end
  end
end

-- A batch goes as a whole, or is looked at again when it may.
local function open_batch_at(name)
  if moved < limit then
    moved = moved + open_batch(name)
  end
end

-- Opening times were computed by the clock as it was: if it was set back, look at all gates.
local seen = tonumber(redis.call('HGET', key.reclaims, 'clock') or 0)
if now() < seen then
  for _, name in ipairs(redis.call('ZRANGE', key.gates, 0, -1)) do
    redis.call('ZADD', key.gates, string.format('%d', now()), name)
  end
end
for _, name in ipairs(redis.call('ZRANGE', key.gates, '-inf', string.format('%d', now()), 'BYSCORE', 'LIMIT', 0, 100)) do
  if not pcall(string.sub(name, 1, #BATCH_GATE) == BATCH_GATE and open_batch_at or open, name) then
    -- The keys of this limit are not of their types: it must not be tried first again and again.
    arm(name, 60000)
  end
end

moved = moved + release_batches()
due_before = nil
finish(0, '', {}, '')
local first = first_due()
if not first then
  return applied({moved, -1, deaths})
end
redis.call('SET', key.promoter, ARGV[3], 'PX', ARGV[5])
if redis.call('EXISTS', key.gates) == 1 then
  redis.call('HSET', key.reclaims, 'clock', string.format('%d', now()))
  redis.call('EXPIRE', key.reclaims, 86400)
end
return applied({moved, math.max(first - now(), 0), deaths})
