#!lua flags=allow-oom
-- Take over entries that were handed back or whose lease ran out; atomic, so that one worker gets each and looks at the fleet's pending entries happen once per interval.
-- KEYS: *
-- ARGV: events queue consumer limit last_chance lease interval crash_limit dead_ms
-- Returns {entries, counts, levels, paused}: claimed {receipt, fields}, in the same order how often each was delivered, and what a reader must know.

local consumer = ARGV[3]
local limit, last_chance = tonumber(ARGV[4]), ARGV[5] == '1'
local lease, interval, crash_limit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local PAGE = 1000
-- A consumer that has nothing and was not heard of for so long is gone.
local LONG_GONE = 6000

-- The lease of the entry's holder, which stands in its name; ours if it does not.
local function lease_of(holder)
  return tonumber(string.match(holder, '~(%d+)$')) or lease
end

local chosen, found, foreign, left_behind = {}, 0, false, false
local paused = redis.call('SISMEMBER', key.paused, '')

-- One more crash and the job is dead: of such jobs a worker gets one at a time, so that the one
-- which kills its workers does not take the others with it.
local function wanted(delivered)
  if delivered < crash_limit - 1 then
    return true
  end
  local free = last_chance
  last_chance = false
  left_behind = left_behind or not free
  return free
end

-- Someone cancelled the job, and its worker is gone.
local function ends_here(stream, level, id)
  if not any_special() then
    return false
  end
  local entry = redis.call('XRANGE', stream, id, id)[1]
  local place = level == '0' and id or level .. '/' .. id
  for _, job_key in ipairs(redis.call('HKEYS', key.cancelling)) do
    local is_it = level == '@' and entry and key_of(field(entry[2], 'j')) == job_key
    if is_it or (entry and place_of(job_key) == place) then
      redis.call('XACK', stream, GROUP, id)
      take_away(stream, id)
      cancelled(job_of(job_key, entry[2]), true)
      return true
    end
  end
  return false
end

-- Whether it was taken from its holder. Of a paused queue nothing is begun, but cancelled jobs end.
local function choose(level, stream, pending)
  if ends_here(stream, level, pending[1]) then
    return true
  elseif paused == 1 then
    return false
  end
  chosen[level] = chosen[level] or {ids = {}, counts = {}}
  table.insert(chosen[level].ids, pending[1])
  chosen[level].counts[pending[1]] = pending[4] + 1
  found = found + 1
  return true
end

local function take_back(level, stream)
  for _, pending in ipairs(redis.call('XPENDING', stream, GROUP, '-', '+', limit, RETURNED)) do
    if found < limit and wanted(pending[4]) then
      choose(level, stream, pending)
    end
  end
end

local function remove_gone(stream)
  for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', stream, GROUP)) do
    local name, pending, idle = info[2], info[4], info[6]
    if pending == 0 and name ~= RETURNED and idle > 3 * lease_of(name) + LONG_GONE then
      redis.call('XGROUP', 'DELCONSUMER', stream, GROUP, name)
    end
  end
end

local function search(level, stream)
  local cursor = redis.call('HGET', key.look, level) or '-'
  local page = redis.call('XPENDING', stream, GROUP, cursor, '+', PAGE)
  for _, pending in ipairs(page) do
    if found >= limit then
      left_behind = true
      break
    end
    if pending[2] ~= RETURNED and pending[3] >= lease_of(pending[2]) and wanted(pending[4]) then
      foreign = choose(level, stream, pending) or foreign
    end
    cursor = '(' .. pending[1]
  end
  if #page < PAGE and found < limit then
    cursor = '-'
  end
  redis.call('HSET', key.look, level, cursor)
  remove_gone(stream)
end

local function forget_old_dead()
  local old = string.format('(%d', now() - tonumber(ARGV[9]))
  for _, entry in ipairs(redis.call('XRANGE', key.dead, '-', old, 'COUNT', 100)) do
    forget_dead(entry)
  end
end

local in_use = levels()
for _, level in ipairs(in_use) do
  take_back(level, stream_of(level))
end

local state = redis.call('HMGET', key.look, 'at', 'hold')
local last, hold = tonumber(state[1]), tonumber(state[2]) or 0
if not last or now() < last or now() - last >= interval then
  -- Nobody looked for a while, or time went backwards: the server or the fleet slept, so every
  -- lease may seem over. Holders get one lease of time to renew.
  if not last or now() < last or now() - last > 3 * interval then
    hold = now() + lease
  end
  if now() >= hold then
    for _, level in ipairs(in_use) do
      search(level, stream_of(level))
    end
    forget_old_dead()
  end
  -- What was left behind is for the next to look, at once.
  local looked = left_behind and now() - interval or now()
  redis.call('HSET', key.look, 'at', string.format('%d', looked), 'hold', string.format('%d', hold))
  redis.call('EXPIRE', key.look, 86400)
end

if foreign then
  -- Who settles with an older epoch must first see what it still holds.
  redis.call('INCR', key.epoch)
end
local entries, counts = {}, {}
for level, claims in pairs(chosen) do
  for _, entry in ipairs(redis.call('XCLAIM', stream_of(level), GROUP, consumer, 0, unpack(claims.ids))) do
    counts[#counts + 1] = claims.counts[entry[1]]
    local receipt = level == '0' and entry[1] or level .. '/' .. entry[1]
    entries[#entries + 1] = {receipt, entry[2]}
  end
end
finish(0, '', {}, '')
-- Not with what was claimed: whoever missed the answer finds that among what is leased to it.
applied({})
return {entries, counts, redis.call('ZREVRANGE', key.levels, 0, -1), paused}
