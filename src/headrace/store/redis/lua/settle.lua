#!lua flags=allow-oom
-- Apply the outcomes of deliveries; atomic, so that a job leaves one place and enters the next at once, and only if its delivery was still held.
-- KEYS: *
-- ARGV: events queue consumer epoch checked finished dead_most dead_ms facts_count facts counts done kept tied moved, then the blocks that these four numbers announce
-- Returns {'epoch', now} if leases were taken since `epoch` and nothing is done unless `checked`; otherwise {'lost', receipt…}.

-- Blocks: done: ids, keys, counts. kept: ids, keys, counts, verdicts, ttls; both without the counts
-- unless `checked`. For each of these that has ties: key ties. For each moved: id key count kind value past
-- envelope verdict ttl ties inputs, where `value` is a delay, a reason or a gate.
local consumer, checked = ARGV[3], ARGV[5] == '1'
local at = 16

local epoch = redis.call('GET', key.epoch) or '0'
if not checked and epoch ~= ARGV[4] then
  return {'epoch', epoch}
end

local moving = tonumber(ARGV[15])
local kinds = {[key.jobs] = 'hash'}
if moving > 0 then
  kinds[key.scheduled], kinds[key.parked], kinds[key.dead] = 'zset', 'hash', 'stream'
end
local wrong = wrong_type(kinds)
if wrong then
  return wrong
end

local lost, lost_keys = {'lost'}, {}
local function lose(receipt, job_key)
  lost[#lost + 1] = receipt
  lost_keys[#lost_keys + 1] = job_key
end

local function held(receipt, job_key, count)
  local stream, id = entry_at(receipt)
  local pending = redis.call('XPENDING', stream, GROUP, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(count) then
    return true
  end
  lose(receipt, job_key)
  return false
end

local function take(count)
  local block = {unpack(ARGV, at, at + count - 1)}
  at = at + count
  return block
end

-- The columns of a block without the rows that are no longer held.
local function only_held(columns)
  if not checked then
    return columns
  end
  local kept = {}
  for c = 1, #columns do kept[c] = {} end
  for row = 1, #columns[1] do
    if held(columns[1][row], columns[2][row], columns[3][row]) then
      for c = 1, #columns do
        kept[c][#kept[c] + 1] = columns[c][row]
      end
    end
  end
  return kept
end

local function last_delivered(stream)
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    if info[2] == GROUP then
      return info[8]
    end
  end
  return '0-0'
end

-- The first id that is still needed: of the oldest pending entry or, if none is, behind the last one
-- that was delivered. Everything before it has been acknowledged.
local function first_needed()
  local oldest = redis.call('XPENDING', key.ready, GROUP, '-', '+', 1)[1]
  if oldest then
    return oldest[1]
  end
  local ms, sequence = string.match(last_delivered(key.ready), '^(%d+)-(%d+)$')
  return ms .. '-' .. string.format('%d', sequence + 1)
end

-- Acknowledged entries must go. Trimming costs a fraction of deleting; only what a longer job holds
-- back is deleted one by one.
local function free(ids)
  redis.call('XACK', key.ready, GROUP, unpack(ids))
  if redis.call('XTRIM', key.ready, 'MINID', first_needed()) < #ids then
    redis.call('XDEL', key.ready, unpack(ids))
  end
end

-- Jobs that are done, all at once but for what their ties entail.
local function all_done(ids, keys, verdicts)
  if #ids == 0 then
    return
  end
  free(ids)
  redis.call('HDEL', key.jobs, unpack(keys))
  if any_special() then
    redis.call('HDEL', key.progress, unpack(keys))
    redis.call('HDEL', key.cancelling, unpack(keys))
    redis.call('HDEL', key.marks, unpack(keys))
    for i, job_key in ipairs(keys) do
      tell_children(job_key, 'done', verdicts and value_of(verdicts[i]) or '')
    end
  end
end

local n = tonumber(ARGV[12])
local done = only_held({take(n), take(n), take(checked and n or 0)})
all_done(done[1], done[2])

n = tonumber(ARGV[13])
local kept = only_held({take(n), take(n), take(checked and n or 0), take(n), take(n)})
all_done(kept[1], kept[2], kept[4])
for i = 1, #kept[1] do
  keep_verdict(kept[2][i], kept[4][i], kept[5][i])
end

local function release_all(count)
  if count == 0 then
    return
  end
  local gone, in_use, held_lanes = {}, {}, {}
  for _, job_key in ipairs(lost_keys) do
    gone[job_key] = true
  end
  for _ = 1, count do
    local job_key, ties = unpack(take(2))
    local tie = tie_of({ties = ties})
    if not gone[job_key] then
      in_use[#in_use + 1] = {job_key, tie}
      held_lanes[#held_lanes + 1] = tie.k
    end
  end
  read_ahead(lanes, key.lanes, held_lanes)
  for _, each in ipairs(in_use) do
    release(each[1], each[2], true)
  end
end

release_all(tonumber(ARGV[14]))

-- The gate of everything that moves on: only who takes the entry out may put the job elsewhere.
local function taken_out(receipt, job_key, count)
  if checked and not held(receipt, job_key, count) then
    return false
  end
  local stream, id = entry_at(receipt)
  if redis.call('XACK', stream, GROUP, id) == 0 then
    lose(receipt, job_key)
    return false
  end
  redis.call('XDEL', stream, id)
  return true
end

local function again(job, delay)
  local due, tie = now() + delay + 1, tie_of(job)
  if tie.r then
    give_back(tie.r, job.key)
  end
  if delay == 0 then
    place(job, true)
    return
  end
  if tie.k and (tie.w or 1) == 1 then
    -- The order of a lane is kept through retries: nobody passes.
    schedule(job, due, 'S')
  else
    schedule(job, due, 's')
    if tie.k then
      leave_lane(tie.k)
    end
  end
end

-- Each new dead job makes room for itself, a few at a time, so that no step is long.
local function bury_oldest()
  local over = redis.call('XLEN', key.dead) - tonumber(ARGV[7])
  local keep_from = now() - tonumber(ARGV[8])
  for i, entry in ipairs(redis.call('XRANGE', key.dead, '-', '+', 'COUNT', 10)) do
    if i <= over or tonumber(string.match(entry[1], '^%d+')) < keep_from then
      redis.call('XDEL', key.dead, entry[1])
      places[entry[2][2]] = false
      redis.call('HDEL', key.marks, entry[2][2])
    end
  end
end

-- A released job goes back to the front: to the consumer from which anyone may take over. If none
-- waits behind it, the back is the front, and a new entry wakes the workers that wait at once.
local function hand_back(receipt, job_key, count)
  local stream, id = entry_at(receipt)
  local first_new = redis.call('XRANGE', stream, '(' .. last_delivered(stream), '+', 'COUNT', 1)[1]
  if count ~= '1' or first_new then
    redis.call('XCLAIM', stream, GROUP, RETURNED, 0, id, 'RETRYCOUNT', tonumber(count) - 1, 'JUSTID')
    return
  end
  local entry = redis.call('XRANGE', stream, id, id)[1]
  redis.call('XACK', stream, GROUP, id)
  redis.call('XDEL', stream, id)
  local prefix = string.match(receipt, '^%d+/') or ''
  places[job_key] = prefix .. redis.call('XADD', stream, '*', unpack(entry[2]))
end

-- A limit lets the job pass later; a paused task's jobs wait until it is resumed.
local function hold_at(name, job)
  local limits = tie_of(job).r or {}
  give_back(limits, job.key)
  for _, limit in ipairs(limits) do
    if limit[1] == name then
      wait_at(name, job, wait_for(limit), true)
      return
    end
  end
  wait_at(name, job, nil, false)
end

-- The task's pause ended before its worker heard of it: the job is handed back as if never taken.
local function is_over(gate)
  local task = string.match(gate, '^task (.*)$')
  return task and redis.call('SISMEMBER', key.paused, task) == 0
end

local ends = {done = true, dead = true, cancelled = true}

local function move(receipt, job_key, count, kind, value, past, envelope, verdict, ttl, ties, inputs)
  local wanted = not ends[kind] and any_special() and redis.call('HEXISTS', key.cancelling, job_key) == 1
  if kind == 'held' and is_over(value) then
    kind = 'released'
  end
  if kind == 'released' and not wanted then
    if held(receipt, job_key, count) then
      hand_back(receipt, job_key, count)
    end
    return
  end
  if not taken_out(receipt, job_key, count) then
    return
  end
  local job = {key = job_key, envelope = envelope, past = past, ties = ties, inputs = inputs}
  if wanted then
    cancelled(job, true)
  elseif kind == 'again' then
    again(job, tonumber(value))
  elseif kind == 'held' then
    hold_at(value, job)
  else
    if kind == 'dead' then
      bury(job, value)
      bury_oldest()
    else
      places[job_key] = false
    end
    keep_verdict(job_key, verdict, ttl)
    ended(job_key, tie_of(job), true, kind, value_of(verdict))
  end
end

for _ = 1, moving do
  move(unpack(take(11)))
end

if ARGV[6] ~= '' then
  redis.call('PUBLISH', key.finished_channel, ARGV[6])
end
finish(tonumber(ARGV[9]), ARGV[10], lost_keys, ARGV[11])
return lost
