#!lua
-- Add jobs with constraints, all or none; atomic, so that of two jobs that want the same lane, name or tick one is first.
-- KEYS: *
-- ARGV: events:int queue may_exist:bool facts:bytes counts:bytes most:int drops:bool most_per_key:int begun:str, then *jobs, for each: job_id when envelope constraints parents children schedule tick history
-- Returns list[Any]: pairs: the position, from 1, of a job that was not added, and the id of the job that stands for it, '' if there was no room, '-' if too many of its key wait.

-- most: how many jobs the queue may hold, 0 for any number; `drops` if the oldest make room. most_per_key: how many
-- jobs of a key may be blocked behind others of it, 0 for any number. `begun`: a flow that is
-- counted anew if this queue has no jobs of it.
local may_exist, most, drops = ARGV[3] == '1', tonumber(ARGV[6]), ARGV[7] == '1'
local HEAD, EACH = 9, 9
local TICKS_MS = 7 * 86400000

local wrong = wrong_type({
  [key.ready] = 'stream', [key.scheduled] = 'zset', [key.parked] = 'hash',
  [key.lanes] = 'hash', [key.gates] = 'zset', [key.children] = 'hash', [key.ticks] = 'zset',
  [key.levels] = 'zset', [key.events] = 'stream',
})
if wrong then
  return wrong
end

-- A place does not count if someone deleted what should be there.
local function is_there(job_id, place)
  if not may_exist then
    return true
  elseif is_entry(place) then
    local stream, id = entry_at(place)
    return #redis.call('XRANGE', stream, id, id) > 0
  elseif string.find(place, '^d%d+%-%d+$') then
    return #redis.call('XRANGE', key.dead, string.sub(place, 2), string.sub(place, 2)) > 0
  end
  return not string.find(place, '^[sSkgf]') or bodies[job_id] or redis.call('HEXISTS', key.parked, job_id) == 1
end

local function is_known(job_id)
  local place = place_of(job_id)
  return (place and is_there(job_id, place)) or (may_exist and redis.call('EXISTS', key.result .. job_id) == 1)
end

-- The end of a live job arrives at its children then; if it has ended, now.
local function adopt(parent, children, known_as)
  if children == '' then
    return
  end
  special = true
  if known_as ~= parent then
    redis.call('HSET', key.children, known_as, children)
    children = '0,' .. #known_as .. ',0:' .. known_as
  end
  local records = redis.call('HGET', key.children, parent) or ''
  redis.call('HSET', key.children, parent, records .. children)
  local place = place_of(parent)
  if not place or string.sub(place, 1, 1) == 'd' then
    local verdict = redis.call('GET', key.result .. parent) or '\145\164done'
    notify_children(parent, place and 'dead' or state_of(verdict), place and cause_of(key.flow .. parent) or value_of(verdict))
  end
end

-- The job that has the unique name, unless nothing is left of it.
local function holder_of(unique)
  local holder = redis.call('GET', unique)
  if holder and (place_of(holder) or redis.call('PTTL', unique) > 0) then
    return holder
  end
end

-- The same envelope with another job id, its second field.
local function with_id(job, other)
  return string.sub(job.envelope, 1, 2) .. binary(other) .. string.sub(job.envelope, 3 + #binary(job.id))
end

-- A debounced job takes the time, arguments and constraints of a later one, as long as it is
-- scheduled and has not run.
local function put_off(holder, job, when)
  local body = place_of(holder) == 's' and body_of(holder)
  local first = body and unparked(holder, body)
  if first and constraints_of(first).debounced and first.history == '' then
    first.envelope, first.constraints = with_id(job, holder), job.constraints
    schedule(first, due_of(when) or now(), 's')
  end
end

-- The other job that has this one's unique name.
local function namesake(job, when)
  local constraints = constraints_of(job)
  local holder = constraints.unique and holder_of(key.unique .. constraints.unique)
  if not holder or holder == job.id then
    return nil
  elseif constraints.debounced then
    put_off(holder, job, when)
  end
  return holder
end

local function take_name(job)
  local unique = constraints_of(job).unique
  if unique then
    redis.call('SET', key.unique .. unique, job.id)
  end
end

local function block(job, parents, when)
  local flow = key.flow .. job.id
  redis.call('DEL', flow)
  local missing, asked_for = 0, {}
  for _, parent in ipairs(parents_in(parents)) do
    missing = missing + (asked_for[parent] and 0 or 1)
    asked_for[parent] = true
  end
  redis.call('HSET', flow, '@', parents, '#', missing, '+', when)
  park(job, 'f')
  return 'blocked'
end

-- Whether a job of this or a later tick was sent.
local function is_fired(schedule_name, tick)
  return tonumber(redis.call('ZSCORE', key.ticks, schedule_name) or -1) >= tick
end

-- The tick counts as fired from now on, even if another job stands for its own. Very old ticks are removed: no
-- worker can still fire them.
local function fire(schedule_name, tick)
  redis.call('ZREMRANGEBYSCORE', key.ticks, '-inf', string.format('(%d', now() - TICKS_MS))
  redis.call('ZADD', key.ticks, string.format('%d', tick), schedule_name)
end

-- A script has at most 200 locals: what only these two need is inside.
local room = most > 0 and most - jobs_live(streams_in_use()) or math.huge
local has_room, key_is_full
do
  local most_per_key = tonumber(ARGV[8])

  -- Whether an entry may go for a job of this flow: a flow is stored as a whole or not at all.
  local function may_go(entry, flow)
    return not flow or constraints_of(job_of('', entry[2])).flow ~= flow
  end

  -- The oldest entry that was handed back and may go.
  local function oldest_returned(stream, flow)
    local from, count, asked, page = '-', 1
    repeat
      page, asked = redis.pcall('XPENDING', stream, GROUP, from, '+', count, RETURNED), count
      for _, pending in ipairs(page.err and {} or page) do
        local entry = redis.call('XRANGE', stream, pending[1], pending[1])[1]
        if entry and may_go(entry, flow) then
          return {entry[1], entry[2], true}
        end
        from, count = id_after(pending[1]), 100
      end
    until #page < asked
  end

  -- The oldest entry that was never fetched and may go.
  local function oldest_new(stream, flow)
    local info = group_info(stream, GROUP)
    local from, count, asked, page = info and '(' .. info.last or '-', 1
    repeat
      page, asked = redis.call('XRANGE', stream, from, '+', 'COUNT', count), count
      for _, entry in ipairs(page) do
        if may_go(entry, flow) then
          return entry
        end
        from, count = '(' .. entry[1], 100
      end
    until #page < asked
  end

  -- Cancel the job that has waited longest among those of the lowest priority, for a job of this flow; whether
  -- there was one.
  local function drop_oldest(flow)
    local lowest, found, at
    for _, label in ipairs(levels()) do
      local stream, priority = stream_of(label), tonumber(string.match(label, '%d+$') or 0)
      local entry = (not lowest or priority <= lowest)
        and (oldest_returned(stream, flow) or oldest_new(stream, flow))
      if entry and (not found or priority < lowest or precedes_id(entry[1], found[1])) then
        lowest, found, at = priority, entry, stream
      end
    end
    if not found then
      return false
    end
    if found[3] then
      redis.call('XACK', at, GROUP, found[1])
    end
    redis.call('XDEL', at, found[1])
    cancelled(job_of(id_of(field(found[2], 'j')), found[2]), true)
    return true
  end

  local stuck = {}
  has_room = function(flow)
    if room < 1 and drops and not stuck[flow or ''] then
      if drop_oldest(flow) then
        room = room + 1
      else
        stuck[flow or ''] = true
      end
    end
    return room >= 1
  end

  -- Whether a new job would be blocked behind too many of its key. While any wait, there is no room in the lane.
  key_is_full = function(job, parents, when)
    local lane = most_per_key > 0 and parents == '' and constraints_of(job).lane
    return lane and string.sub(lane, 1, 4) == 'key:' and not due_of(when)
      and redis.call('ZCARD', key.lane .. lane) >= most_per_key
  end
end

local job_ids = {}
for at = HEAD + 1, #ARGV, EACH do
  job_ids[#job_ids + 1] = ARGV[at]
end
get_places(key.jobs, job_ids, places, false)

-- Count new jobs with their flows.
local joining = {}
local function join_flow(flow, job_id)
  if flow then
    joining[flow] = joining[flow] or {}
    table.insert(joining[flow], job_id)
  end
end

local known = {}
for at = HEAD + 1, #ARGV, EACH do
  local job_id, when, envelope, constraints, parents, children, schedule_name, tick, history = unpack(ARGV, at, at + EACH - 1)
  local job = {id = job_id, envelope = envelope, history = history, constraints = constraints, inputs = ''}
  local fired = tick ~= '' and is_fired(schedule_name, tonumber(tick))
  local instead = (fired or is_known(job_id)) and job_id or namesake(job, when)
  if not instead and key_is_full(job, parents, when) then
    instead = '-'
  elseif not instead and not has_room(constraints_of(job).flow) then
    instead = ''
  elseif tick ~= '' and not fired then
    fire(schedule_name, tonumber(tick))
  end
  if instead then
    known[#known + 1] = (at - HEAD - 1) / EACH + 1
    known[#known + 1] = instead
    -- The sender has counted all of them as sent.
    local name = 'sent ' .. task_of(envelope)
    made[name] = (made[name] or 0) - 1
  else
    room = room - 1
    take_name(job)
    record_fact(parents ~= '' and block(job, parents, when) or place_at(job, when), job)
  end
  if instead ~= '' and instead ~= '-' then
    adopt(instead or job_id, children, job_id)
  end
  if not instead then
    join_flow(constraints_of(job).flow, job_id)
  end
end
for flow, jobs in pairs(joining) do
  if flow == ARGV[9] and redis.call('EXISTS', key.flow_jobs .. flow) == 0 then
    redis.call('DEL', key.flow_counts .. flow)
  end
  for i = 1, #jobs, 4000 do
    redis.call('SADD', key.flow_jobs .. flow, unpack(jobs, i, math.min(i + 3999, #jobs)))
  end
  redis.call('PERSIST', key.flow_counts .. flow)
end
finish(0, ARGV[4], {}, ARGV[5])
return applied(known)
