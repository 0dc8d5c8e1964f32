#!lua flags=allow-oom
-- Apply the outcomes of deliveries; atomic, so that a job leaves one place and enters the next at once, and only if its delivery was still held.
-- KEYS: *
-- ARGV: events:int queue consumer:str epoch:int checked:bool finished:bytes facts_count:int facts:bytes counts:bytes done:int kept:int labels:bytes constrained:bool moved:int from_log:int shelves:int bounded:bool, then *blocks, as these numbers announce
-- Returns list[Any]: {'epoch', now} if leases were taken since `epoch`, unless `checked`, and {'gone', receipt, count…} if that found some that are not held, and an error if it does not know an outcome: nothing is done then; otherwise {'lost', deaths, receipt, count…}, with the jobs that this made dead besides.

-- Blocks: done: ids, job_ids, counts, constraints. kept: ids, job_ids, counts, constraints, verdicts, ttls; both without
-- the counts unless `checked` and the constraints unless `constrained`. labels: '' if all of them are from `ready`; else
-- of both, how many there are of each stream, one after the other: {label, number}…. from_log, of events that are done and
-- were read from their log: ids, and if `checked` counts. For each moved: id key count kind value history
-- envelope verdict ttl constraints inputs, where `value` is a delay, a reason, a gate or the format of another runner.
-- For each of the shelves on which jobs that are done are kept: name most keep_ms marks block.
-- bounded: whether workers may wait until fewer jobs of the queue run.
local consumer, checked = ARGV[3], ARGV[5] == '1'
local at = 18

local epoch = epoch_now()
if not checked and epoch ~= ARGV[4] then
  return {'epoch', epoch}
end

local constrained, moving = ARGV[13] == '1', tonumber(ARGV[14])
local wrong = (constrained or moving > 0) and wrong_way() or wrong_type({[key.events] = 'stream'})
wrong = wrong or wrong_special()
if wrong then
  return wrong
end

local function take(count)
  local block = {unpack(ARGV, at, at + count - 1)}
  at = at + count
  return block
end

local n = tonumber(ARGV[10])
local done = {take(n), take(n), take(checked and n or 0), take(constrained and n or 0)}
n = tonumber(ARGV[11])
local kept = {take(n), take(n), take(checked and n or 0), take(constrained and n or 0), take(n), take(n)}
n = tonumber(ARGV[15])
local from_log = {take(n), take(checked and n or 0)}
-- The kinds of outcome that `move` applies. Another is refused before anything is written.
local KINDS = {retry = true, dead = true, cancelled = true, held = true, released = true}
local moves = {}
for i = 1, moving do
  moves[i] = take(11)
  if not KINDS[moves[i][4]] then
    return redis.error_reply('UNKNOWNOUTCOME ' .. moves[i][4] .. ' is not known to settle.lua')
  end
end
local shelves = {}
for i = 1, tonumber(ARGV[16]) do
  shelves[i] = take(5)
end
local labels = ARGV[12] ~= '' and cmsgpack.unpack(ARGV[12]) or {{{'', #done[1]}}, {{'', #kept[1]}}}

-- Deliveries that are no longer held. If there are any, the sender counts the others alone.
local gone = {'gone'}
local function check(receipt, count)
  if not still_holds(GROUP, consumer, receipt, count) then
    gone[#gone + 1] = receipt
    gone[#gone + 1] = count
  end
end

local function check_all(ids, counts, of_label)
  local i = 0
  for _, part in ipairs(of_label) do
    local prefix = part[1] == '' and '' or part[1] .. '/'
    for _ = 1, part[2] do
      i = i + 1
      check(prefix .. ids[i], counts[i])
    end
  end
end

if checked then
  check_all(done[1], done[3], labels[1])
  check_all(kept[1], kept[3], labels[2])
  for i, id in ipairs(from_log[1]) do check('@/' .. id, from_log[2][i]) end
  for _, each in ipairs(moves) do check(each[1], each[3]) end
  if #gone > 1 then
    return gone
  end
end

local function last_delivered(stream)
  local info = group_info(stream, GROUP)
  return info and info.last or '0-0'
end

-- The first id that is still needed: the oldest pending entry or, if there is none, the id after the last
-- delivered one. Everything before it has been acknowledged.
local function first_needed(stream)
  local oldest = redis.call('XPENDING', stream, GROUP, '-', '+', 1)[1]
  if oldest then
    return oldest[1]
  end
  return id_after(last_delivered(stream))
end

-- Acknowledged entries must go. Trimming costs a fraction of deleting; only entries behind a longer job
-- are deleted one by one.
local function free(stream, ids, first, last)
  redis.call('XACK', stream, GROUP, unpack(ids, first, last))
  if redis.call('XTRIM', stream, 'MINID', first_needed(stream)) < last - first + 1 then
    redis.call('XDEL', stream, unpack(ids, first, last))
  end
end

local function free_all(ids, of_label)
  local first = 1
  for _, part in ipairs(of_label) do
    local label, count = part[1], part[2]
    if count > 0 then
      free(label == '' and key.ready or key.level .. label, ids, first, first + count - 1)
      first = first + count
    end
  end
end

local function release_all(job_ids, constraints)
  local held_lanes = {}
  for _, each in ipairs(constraints) do
    local held = read_constraints(each)
    held_lanes[#held_lanes + 1] = held.lane
    held_lanes[#held_lanes + 1] = held.task_lane
  end
  read_ahead(lanes, key.lanes, held_lanes)
  for i, each in ipairs(constraints) do
    -- The job is done. What it held in keys that are not of their types cannot be freed.
    pcall(release, job_ids[i], read_constraints(each), true)
    leave_flow(read_constraints(each).flow, job_ids[i], 'done')
  end
end

-- Jobs that are done: all at once, then what their constraints need.
local function all_done(of_label, ids, job_ids, constraints, verdicts)
  if #ids == 0 then
    return
  end
  free_all(ids, of_label)
  remove_places(key.jobs, job_ids)
  release_all(job_ids, constraints)
  if any_special() then
    redis.call('HDEL', key.progress, unpack(job_ids))
    forget_cancel_requests(job_ids)
    redis.call('HDEL', key.once, unpack(job_ids))
    for i, job_id in ipairs(job_ids) do
      notify_children(job_id, 'done', verdicts and value_of(verdicts[i]) or '')
    end
  end
end

if #shelves > 0 then
  keep_ended(shelves, done[2], kept[2])
end
all_done(labels[1], done[1], done[2], done[4])
all_done(labels[2], kept[1], kept[2], kept[4], kept[5])
for i = 1, #kept[1] do
  keep_verdict(kept[2][i], kept[5][i], kept[6][i])
end

-- What done events may have besides their entry in the log.
local function forget_from_log(ids)
  if not any_special() then
    return
  end
  local events = {}
  for _, id in ipairs(ids) do
    local entry = redis.call('XRANGE', key.log, id, id)[1]
    events[#events + 1] = entry and id_of(field(entry[2], 'j'))
  end
  if #events > 0 then
    redis.call('HDEL', key.progress, unpack(events))
    redis.call('HDEL', key.once, unpack(events))
    forget_cancel_requests(events)
  end
end

if #from_log[1] > 0 then
  redis.call('XACK', key.log, GROUP, unpack(from_log[1]))
  forget_from_log(from_log[1])
end

-- A script has at most 200 locals: what only `move` needs is inside.
local untrue, lost = {}, {'lost', deaths}
local out, lose, correct, move
do
  -- Only the caller that takes the entry out may move the job on.
  local function taken_out(receipt)
    local stream, id = entry_at(receipt)
    if redis.call('XACK', stream, GROUP, id) == 0 then
      return false
    end
    out = receipt
    take_away(stream, id)
    return true
  end

  local function retry(job, delay)
    local due, constraints = now() + delay + 1, constraints_of(job)
    if constraints.limits then
      give_back(constraints.limits, job.id)
    end
    leave_task_lane(constraints)
    if delay == 0 then
      place(job, true)
      return
    end
    if constraints.lane and (constraints.width or 1) == 1 then
      -- A lane keeps its order through retries.
      schedule(job, due, 'S')
    else
      schedule(job, due, 's')
      if constraints.lane then
        leave_lane(constraints.lane, constraints.width)
      end
    end
  end

  -- A released job keeps its entry, and so its place and age: the entry goes to the consumer from which any worker
  -- takes over, and workers are notified.
  local function hand_back(receipt, count)
    local stream, id = entry_at(receipt)
    redis.call('XCLAIM', stream, GROUP, RETURNED, 0, id, 'RETRYCOUNT', tonumber(count) - 1, 'JUSTID')
    control_changed = true
  end

  -- Let the job wait for the runner of this format, which is not the one that its sender knew.
  local function move_to(job, format)
    local before = string.byte(job.envelope, 2) or 0
    if before >= 1 and before <= 3 then
      job.envelope = string.sub(job.envelope, 1, 1) .. string.char(format) .. string.sub(job.envelope, 3)
    end
    if constraints_of(job).gathering then
      -- The others of its batch are handed back too.
      gather(job, true)
    else
      put_in_stream(job)
    end
  end

  -- Block the job at its limit, or until its task is resumed.
  local function hold_at(name, job)
    local limits = constraints_of(job).limits or {}
    give_back(limits, job.id)
    if name ~= QUEUE_LIMIT then
      leave_task_lane(constraints_of(job))
    end
    for _, limit in ipairs(limits) do
      if limit[1] == name then
        wait_at(name, job, wait_for(limit), true)
        return
      end
    end
    wait_at(name, job, nil, false)
  end

  -- The task was resumed before its worker knew: the job is handed back as if never taken.
  local function is_over(gate)
    local task = paused_at(gate)
    return task and redis.call('SISMEMBER', key.paused, task) == 0
  end

  local function wants_end(job_id)
    return any_special() and redis.call('HEXISTS', key.cancelling, job_id) == 1
  end

  -- The outcome in effect: the job may have been cancelled, or the cancellation may be of an earlier job.
  local function effect_of(kind, value, job_id)
    if kind == 'dead' then
      return kind
    elseif wants_end(job_id) then
      return 'cancelled'
    elseif kind == 'cancelled' or (kind == 'held' and is_over(value)) then
      return 'released'
    end
    return kind
  end

  -- The sender wrote this fact in advance: it did not happen.
  correct = function(job, kind)
    if EVENTS > 0 then
      untrue[#untrue + 1] = job.id
      local name = kind .. ' ' .. task_of(job.envelope)
      made[name] = (made[name] or 0) - 1
    end
  end

  lose = function(receipt, count)
    lost[#lost + 1] = receipt
    lost[#lost + 1] = count
  end

  local function end_it(job, kind, reason, verdict, ttl)
    local goes_on = true
    if kind == 'dead' then
      add_dead(job, reason)
      goes_on = goes_on_after(job)
    else
      places[job.id] = false
    end
    if kind == 'cancelled' and verdict == '' then
      verdict, ttl = CANCELLED, constraints_of(job).ttl_ms or KEPT_MS
      finished[#finished + 1] = binary(job.id)
    end
    if kind == 'cancelled' then
      keep_cancelled(job, string.match(consumer, '^(.*)~') or consumer, verdict)
    end
    keep_verdict(job.id, verdict, ttl)
    ended(job.id, constraints_of(job), goes_on, kind, value_of(verdict))
  end

  -- Whether a job that is handed back stays in its stream: another runner is named only where one was released.
  local function stays(kind, effect, value, job_id)
    local moves_on = kind == 'released' and value ~= '' and not MEMBERS and string.sub(job_id, 1, 7) ~= '=entry-'
    return effect == 'released' and not moves_on
  end

  -- Whether an outcome may be applied. If so, the entry is gone, unless the job stays.
  local function is_ours(staying, receipt, count)
    if staying then
      return still_holds(GROUP, consumer, receipt, count)
    end
    return taken_out(receipt)
  end

  move = function(receipt, job_id, count, kind, value, history, envelope, verdict, ttl, constraints, inputs)
    local effect = effect_of(kind, value, job_id)
    local job = {id = job_id, envelope = envelope, history = history, constraints = constraints, inputs = inputs}
    local staying = stays(kind, effect, value, job_id)
    if not is_ours(staying, receipt, count) then
      lose(receipt, count)
      correct(job, kind)
      return
    elseif staying then
      hand_back(receipt, count)
    elseif effect == 'released' then
      move_to(job, tonumber(value))
    elseif effect == 'retry' then
      retry(job, tonumber(value))
    elseif effect == 'held' then
      hold_at(value, job)
    elseif effect == 'dead' or effect == 'cancelled' then
      end_it(job, effect, value, verdict, ttl)
    else
      error('no move for the outcome ' .. effect)
    end
    if kind ~= effect then
      correct(job, kind)
      record_fact(effect, job)
    end
  end
end

for _, each in ipairs(moves) do
  local fine, failure = pcall(move, unpack(each))
  if not fine then
    local job = {id = each[2], envelope = each[7], history = each[6], constraints = each[10], inputs = each[11]}
    correct(job, each[4])
    if out == each[1] then
      die_on_the_way(job, failure)
    else
      lose(each[1], each[3])
    end
  end
end

if ARGV[6] ~= '' then
  redis.call('PUBLISH', key.finished_channel, ARGV[6])
end
if ARGV[17] == '1' and redis.call('HDEL', key.reclaims, 'full') == 1 then
  control_changed = true
end
finish(tonumber(ARGV[7]), ARGV[8], untrue, ARGV[9])
return applied(lost)
