-- Flows: `flow` + child has '@' all parents in order, '#' how many are missing, '+' the child's own
-- time, and the result of each parent that has ended. Once a parent has failed: '!' how many of them have, '~' the
-- first, and '!' + parent: 'x', how often it had been replayed, and which job failed first; or 'r' and that number
-- once it has been replayed. '-' if another was cancelled meanwhile. Parents that were added: see `add_parents`.

local arrive
do
  local function inputs_of(flow)
    local parents = parents_in(redis.call('HGET', flow, '@') or '')
    local parts = {array(#parents)}
    for i = 1, #parents, 1000 do
      for _, value in ipairs(redis.call('HMGET', flow, unpack(parents, i, math.min(i + 999, #parents)))) do
        parts[#parts + 1] = value or NIL
      end
    end
    return table.concat(parts)
  end

  -- The job that was blocked by a flow, or dead; if nothing is left of it, its place is removed too.
  local function unblocked(child)
    local place, job = place_of(child), nil
    if place == 'f' then
      job = unpark(child)
    else
      local entry = redis.call('XRANGE', key.dead, string.sub(place, 2), string.sub(place, 2))[1]
      redis.call('XDEL', key.dead, string.sub(place, 2))
      redis.call('DEL', key.result .. child)
      job = entry and job_of(child, entry[2])
    end
    if not job then
      places[child] = false
    end
    return job
  end

  local function go_on_from(job, when)
    if place_at(job, when) == 'sent' then
      record_fact('ready', job)
    end
  end

  local function set_free(job, flow)
    local when = redis.call('HGET', flow, '+') or ''
    job.inputs = inputs_of(flow)
    redis.call('DEL', flow)
    safely(job, go_on_from, job, when)
  end

  -- No parent is dead any more: the job waits again, or goes on, and so do those that wait for it.
  local function revive(child, flow)
    local job = unblocked(child)
    if not job then
      redis.call('DEL', flow)
    elseif redis.call('HEXISTS', flow, '-') == 1 then
      redis.call('DEL', flow)
      cancelled(job, false)
    else
      take_name_again(job)
      notify_children(child, 'waiting', '')
      if redis.call('HGET', flow, '#') == '0' then
        set_free(job, flow)
      else
        park(job, 'f')
        record_fact('blocked', job)
      end
    end
  end

  -- How many parents are missing; nil if that is not a number.
  local function one_less_missing(flow)
    local missing = redis.pcall('HINCRBY', flow, '#', -1)
    return type(missing) == 'number' and missing or nil
  end

  -- Whether a parent had failed, and how often it had been replayed when it was last heard of.
  local function heard_of(flow, parent)
    local mark, replays = string.match(redis.call('HGET', flow, '!' .. parent) or '', '^(%a)(%d+)')
    return mark == 'x', tonumber(replays) or -1
  end

  -- A parent does not count as failed any more; whether none does.
  local function forgive(flow, parent)
    local had_failed = heard_of(flow, parent)
    redis.call('HDEL', flow, '!' .. parent)
    return had_failed and redis.call('HINCRBY', flow, '!', -1) <= 0
  end

  -- Jobs that this parent would have added, if it had not died in between: they do not count. One that has ended
  -- was sent, and does.
  local function drop_unconfirmed(flow, parent)
    local open = redis.call('HGET', flow, '?' .. parent)
    if not open then
      return
    end
    redis.call('HDEL', flow, '?' .. parent)
    local dropped, kept = {}, {}
    for _, each in ipairs(parents_in(open)) do
      dropped[each] = redis.call('HSETNX', flow, each, NIL) == 1
      if dropped[each] then
        redis.call('HINCRBY', flow, '#', -1)
      end
    end
    for _, each in ipairs(parents_in(redis.call('HGET', flow, '@') or '')) do
      kept[#kept + 1] = dropped[each] and '' or #each .. ':' .. each
    end
    redis.call('HSET', flow, '@', table.concat(kept))
  end

  local function arrive_well(child, flow, parent, value)
    local new = redis.pcall('HSETNX', flow, parent, value == '' and NIL or value)
    if new == 0 then
      return
    end
    if new == 1 then
      drop_unconfirmed(flow, parent)
    end
    local missing = new == 1 and one_less_missing(flow)
    if not missing then
      redis.call('DEL', flow)
      local job = place_of(child) == 'f' and unblocked(child)
      if job then
        fail(job, 'malformed', 'what it waits for cannot be read')
      end
    elseif place_of(child) ~= 'f' then
      if forgive(flow, parent) then
        revive(child, flow)
      end
    elseif missing == 0 then
      local job = unblocked(child)
      if job then
        set_free(job, flow)
      else
        redis.call('DEL', flow)
      end
    end
  end

  local function arrive_dead(child, flow, parent, cause, replays)
    local failed, before = heard_of(flow, parent)
    if replays < before then
      return
    end
    local heard, now_heard = redis.call('HGET', flow, '!' .. parent), string.format('x%d ', replays) .. cause
    -- Once a parent itself is why, it stays so until it is replayed: a message that blames another is older.
    local own = binary(parent)
    if failed and replays == before and string.sub(heard, -#own) == own then
      return
    end
    redis.call('HSET', flow, '!' .. parent, now_heard)
    if not failed then
      redis.call('HINCRBY', flow, '!', 1)
      redis.call('HSETNX', flow, '~', parent)
    end
    local job = place_of(child) == 'f' and unblocked(child)
    if job then
      failed_by_parent(job, cause)
    elseif failed and heard ~= now_heard then
      -- The parent was forgotten. Those that wait for this one cannot go on either.
      notify_children(child, 'dead', cause_of(flow))
    end
  end

  local function arrive_cancelled(child, flow, parent)
    if place_of(child) == 'f' then
      redis.call('DEL', flow)
      local job = unblocked(child)
      if job then
        cancelled(job, false)
      end
      return
    end
    redis.call('HSET', flow, '-', '1')
    if forgive(flow, parent) then
      revive(child, flow)
    end
  end

  -- Messages may come twice and out of order: a parent that was replayed more often is further on.
  local function arrive_replayed(child, flow, parent, replays)
    local failed, before = heard_of(flow, parent)
    if replays <= before then
      return
    end
    redis.call('HSET', flow, '!' .. parent, string.format('r%d', replays))
    if failed and redis.call('HINCRBY', flow, '!', -1) <= 0 and place_of(child) ~= 'f' then
      revive(child, flow)
    end
  end

  arrive = function(child, parent, state, value, anyway, replays)
    local place, flow = place_of(child), key.flow .. child
    local is_dead = place and string.sub(place, 1, 1) == 'd'
    if place ~= 'f' and not (is_dead and redis.call('EXISTS', flow) == 1) then
      return
    elseif state == 'done' or anyway and state ~= 'waiting' then
      arrive_well(child, flow, parent, state == 'done' and value or '')
    elseif redis.call('HEXISTS', flow, parent) == 1 then
      -- It has ended before.
      return
    elseif state == 'dead' then
      arrive_dead(child, flow, parent, value, replays)
    elseif state == 'waiting' then
      arrive_replayed(child, flow, parent, replays)
    else
      arrive_cancelled(child, flow, parent)
    end
  end
end

local has_messages = false
local function send_message(ended)
  redis.call('XADD', key.flow_messages, '*', 'q', ended[1], 'k', ended[2], 'p', ended[3], 's', ended[4], 'v', ended[5], 'a', ended[6] and '1' or '0', 'n', ended[7])
  has_messages = true
end

-- One end may end or free thousands of others: a limited number now, the rest by the flow relay.
local function run_agenda()
  local at = 1
  while agenda[at] do
    local ended = agenda[at]
    if ended[1] ~= QUEUE or at > 500 then
      send_message(ended)
    else
      pcall(arrive, ended[2], ended[3], ended[4], ended[5], ended[6], ended[7])
    end
    at = at + 1
  end
end
