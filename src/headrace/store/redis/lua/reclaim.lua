#!lua flags=allow-oom
-- Take over entries that were handed back or whose lease ran out; atomic, so that one worker gets each and the fleet searches once per interval.
-- KEYS: *
-- ARGV: events:int queue consumer:str limit:int loop:int thread:int process:int last_chance:bool lease:int interval:int crash_limit:int going_on:bool most:int
-- Returns tuple[list[Any], list[int], list[bytes], int, int]: {entries, counts, levels, paused, more}: claimed {receipt, fields}, in the same order how often each was delivered, the state for a reader, and 1 if the search is not over: its caller goes on.

local consumer = ARGV[3]
local limit, last_chance = tonumber(ARGV[4]), ARGV[8] == '1'
local lease, interval, crash_limit = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
-- How many may be taken of each runner.
local room = {[''] = tonumber(ARGV[5]), t = tonumber(ARGV[6]), p = tonumber(ARGV[7])}
-- How many more jobs may be leased: those that were handed back are not.
local back_room = math.huge
local PAGE = 1000
-- How many live entries one call passes over: a millisecond or two of the server's time.
local MOST_PASSED = 10000
-- The server passes over the live entries of one holder in one go, unless there are more than this.
local MOST_AT_ONCE = 50000
-- A consumer that holds nothing and was silent for this long is gone.
local LONG_GONE = 6000

-- The lease of the entry's holder, which is part of its name; ours if it is not.
local function lease_of(holder)
  return tonumber(string.match(holder, '~(%d+)$')) or lease
end

local chosen, found, foreign, left_behind = {}, 0, false, false
local passed, more = 0, false
local paused = redis.call('SISMEMBER', key.paused, '')

-- A script has at most 200 locals: what only these need is inside.
local choose, is_more
do
  -- One more crash and the job is dead. A worker gets one such job at a time, so that one that kills its
  -- workers does not take others with it.
  local function wanted(delivered)
    if delivered < crash_limit - 1 then
      return true
    end
    local free = last_chance
    last_chance = false
    left_behind = left_behind or not free
    return free
  end

  -- The cancelled jobs that an entry may be.
  local function cancelling(entry)
    local job_id = id_of(field(entry[2], 'j'))
    if job_id == '' then
      return redis.call('HKEYS', key.cancelling)
    end
    return redis.call('HEXISTS', key.cancelling, job_id) == 1 and {job_id} or {}
  end

  -- Someone cancelled the job, and its worker is gone.
  local function ends_here(stream, level, id)
    local entry = any_special() and redis.call('XRANGE', stream, id, id)[1]
    local place = level == '0' and id or level .. '/' .. id
    for _, job_id in ipairs(entry and cancelling(entry) or {}) do
      if level == '@' or place_of(job_id) == place then
        redis.call('XACK', stream, GROUP, id)
        take_away(stream, id)
        cancelled(job_of(job_id, entry[2]), true)
        return true
      end
    end
    return false
  end

  -- Whether an entry is of the batch whose job was taken last: that needs no more room. A batch goes as a whole.
  local batch_seen, batch_taken
  is_more = function(level, stream, id)
    if string.sub(level, 1, 1) ~= 'b' then
      return false
    end
    local entry = redis.call('XRANGE', stream, id, id)[1]
    batch_seen = entry and field(entry[2], 'b')
    return entry and batch_seen == batch_taken
  end

  -- Whether it was taken from its holder. In a paused queue nothing begins, but cancelled jobs end.
  choose = function(level, stream, pending, more_of_batch)
    local runner = string.match(level, '^b?([tp]?)')
    if ends_here(stream, level, pending[1]) then
      return true
    elseif room[runner] <= 0 and not more_of_batch then
      left_behind = true
      return false
    elseif paused == 1 or not wanted(pending[4]) then
      return false
    end
    if not more_of_batch then
      room[runner] = room[runner] - 1
      found = found + 1
    end
    batch_taken = batch_seen
    local claims, id = chosen[level] or {ids = {}, counts = {}, lost = {}}, pending[1]
    chosen[level], claims.ids[#claims.ids + 1] = claims, id
    claims.counts[id], claims.lost[id] = pending[4] + 1, pending[2] ~= RETURNED
    return true
  end
end

-- Jobs on their last chance must not hide the others: search behind them too.
local function take_back(level, stream)
  local from, page = '-', nil
  repeat
    local count = (page or string.sub(level, 1, 1) == 'b') and PAGE or limit
    page = redis.call('XPENDING', stream, GROUP, from, '+', count, RETURNED)
    for _, pending in ipairs(page) do
      local more_of_batch = is_more(level, stream, pending[1])
      if (found < limit and back_room > 0) or more_of_batch then
        local before = found
        choose(level, stream, pending, more_of_batch)
        back_room = back_room - (found - before)
      end
      from = '(' .. pending[1]
    end
  until #page < count or count == PAGE or found >= limit or paused == 1
end

-- Search all streams, from where the last call stopped.
local look
do
  -- Some entries of one holder from `from` on, including all whose lease is over.
  local function page_of(stream, holder, pending, from)
    if pending > MOST_AT_ONCE then
      return redis.call('XPENDING', stream, GROUP, from, '+', PAGE, holder)
    end
    passed = passed + pending
    return redis.call('XPENDING', stream, GROUP, 'IDLE', lease_of(holder), from, '+', PAGE, holder)
  end

  -- The first and the last entry of the batch that an entry is of.
  local function ends_of_batch(stream, id, batch)
    local size, ends = tonumber(string.match(batch, '^%d+')) or 1, {}
    for place, command in ipairs({'XREVRANGE', 'XRANGE'}) do
      for _, entry in ipairs(redis.call(command, stream, id, place == 1 and '-' or '+', 'COUNT', size)) do
        if field(entry[2], 'b') ~= batch then
          break
        end
        ends[place] = entry[1]
      end
    end
    return ends[1], ends[2], size
  end

  -- Whether more of the batch of a lost entry is about to be lost. The server may note times a little apart for
  -- what one command delivers or renews: a batch is taken over when the last of its leases is over.
  local waited_for, waits = nil, false
  local function batch_waits(stream, holder, id)
    local entry = redis.call('XRANGE', stream, id, id)[1]
    local batch = entry and field(entry[2], 'b')
    if batch and batch ~= waited_for then
      waited_for, waits = batch, false
      local first, last, size = ends_of_batch(stream, id, batch)
      local ends = lease_of(holder)
      for _, pending in ipairs(redis.call('XPENDING', stream, GROUP, first, last, size, holder)) do
        waits = waits or pending[3] < ends and pending[3] >= 0.9 * ends
      end
    end
    return batch and waits
  end

  -- Take what one holder has lost, from entry `from` on; returns where to go on, nil if all was searched.
  -- Reads only its own entries, however many of others are ahead of them.
  local function search_holder(level, stream, holder, pending, from)
    local page = page_of(stream, holder, pending, from)
    for _, entry in ipairs(page) do
      local more_of_batch = is_more(level, stream, entry[1])
      if found >= limit and not more_of_batch then
        left_behind = true
        return from
      end
      local is_lost = entry[3] >= lease_of(holder)
      if is_lost and not (string.sub(level, 1, 1) == 'b' and batch_waits(stream, holder, entry[1])) then
        foreign = choose(level, stream, entry, more_of_batch) or foreign
      end
      from = '(' .. entry[1]
    end
    return #page == PAGE and from or nil
  end

  -- Search the holders of a stream by name, from `name` on, until the call has done enough; returns where
  -- to go on, as 'entry name', nil if all were searched.
  local function search(level, stream, from, name)
    for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', stream, GROUP)) do
      local holder, pending, idle = info[2], info[4], info[6]
      if pending == 0 and holder ~= RETURNED and idle > 3 * lease_of(holder) + LONG_GONE then
        redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, holder)
      elseif pending > 0 and holder ~= RETURNED and holder >= name then
        if passed >= MOST_PASSED then
          return '- ' .. holder
        end
        from = search_holder(level, stream, holder, pending, holder == name and from or '-')
        if from then
          return from .. ' ' .. holder
        end
      end
    end
  end

  look = function(in_use)
    local level_at, from, name = string.match(redis.call('HGET', key.reclaims, 'next') or '', '^(%S+) (%S+) (.*)$')
    local reached = false
    for _, level in ipairs(in_use) do
      reached = reached or not level_at or level == level_at
      if reached then
        local at = level == level_at
        local rest = search(level, stream_of(level), at and from or '-', at and name or '')
        if rest then
          redis.call('HSET', key.reclaims, 'next', level .. ' ' .. rest)
          return true
        end
      end
    end
    redis.call('HDEL', key.reclaims, 'next')
    return false
  end
end

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end
local in_use = levels()
if ARGV[13] ~= '0' then
  back_room = tonumber(ARGV[13])
  for _, level in ipairs(in_use) do
    back_room = back_room - leased_in(stream_of(level), GROUP, RETURNED)
  end
end
for _, level in ipairs(in_use) do
  take_back(level, stream_of(level))
end

local state = redis.call('HMGET', key.reclaims, 'at', 'hold')
local last, hold = tonumber(state[1]), tonumber(state[2]) or 0
if not last or now() < last or now() - last >= interval or ARGV[12] == '1' then
  -- There was no search for a while, or the clock went back: the server or the fleet slept, so every
  -- lease may seem over. Holders get one lease of time to renew.
  if not last or now() < last or now() - last > 3 * interval then
    hold = now() + lease
  end
  if now() >= hold then
    more = look(in_use)
    drop_oldest_dead(100)
  end
  -- The next search takes what was left behind, at once.
  local at = string.format('%d', left_behind and now() - interval or now())
  redis.call('HSET', key.reclaims, 'at', at, 'hold', string.format('%d', hold))
  redis.call('EXPIRE', key.reclaims, 86400)
end

if foreign then
  next_epoch()
end
local entries, counts = {}, {}
for _, level in ipairs(in_use) do
  local claims = chosen[level]
  for first = 1, claims and #claims.ids or 0, 4000 do
    local ids = {unpack(claims.ids, first, math.min(first + 3999, #claims.ids))}
    for _, entry in ipairs(redis.call('XCLAIM', stream_of(level), GROUP, consumer, 0, unpack(ids))) do
      counts[#counts + 1] = claims.counts[entry[1]]
      entries[#entries + 1] = {level == '0' and entry[1] or level .. '/' .. entry[1], entry[2]}
      if claims.lost[entry[1]] then
        record_fact('stalled', job_of(id_of(field(entry[2], 'j')), entry[2]), string.format('%d', counts[#counts] - 1))
      end
    end
  end
end
finish(0, '', {}, '')
-- Without what was claimed: a worker that missed the answer gets that by `recover`.
applied({})
return {entries, counts, levels_in(key.levels), paused, more and not left_behind and 1 or 0}
