#!lua flags=allow-oom
-- Apply the outcomes of deliveries; atomic, so that a job leaves one place and enters the next at once, and only if its delivery was still held.
-- KEYS: ready jobs scheduled parked dead epoch
-- ARGV: group returned consumer epoch checked result finished_channel finished due_channel dead_most dead_ms done kept again dead released, then the blocks that these five numbers announce
-- Returns {'epoch', now} if leases were taken since `epoch` and nothing is done unless `checked`; otherwise {'lost', receipt…}.

-- Blocks: done: ids, keys, counts. kept: ids, keys, counts, verdicts, ttls; both without the counts
-- unless `checked`. For each again: id key count delay past envelope. For each dead: id key count
-- reason past envelope verdict ttl. For each released: id key count.
local group, returned, consumer = ARGV[1], ARGV[2], ARGV[3]
local checked, result, due_channel = ARGV[5] == '1', ARGV[6], ARGV[9]
local at = 17

local epoch = redis.call('GET', KEYS[6]) or '0'
if not checked and epoch ~= ARGV[4] then
  return {'epoch', epoch}
end

local moving = tonumber(ARGV[14]) + tonumber(ARGV[15]) > 0
local kinds = {[KEYS[2]] = 'hash'}
if moving then
  kinds[KEYS[3]], kinds[KEYS[4]], kinds[KEYS[5]] = 'zset', 'hash', 'stream'
end
local wrong = wrong_type(kinds)
if wrong then
  return wrong
end

local lost = {'lost'}
local function held(id, count)
  local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(count) then
    return true
  end
  lost[#lost + 1] = id
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
    if held(columns[1][row], columns[3][row]) then
      for c = 1, #columns do
        kept[c][#kept[c] + 1] = columns[c][row]
      end
    end
  end
  return kept
end

local function last_delivered()
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    if info[2] == group then
      return info[8]
    end
  end
  return '0-0'
end

-- The first id that is still needed: of the oldest pending entry or, if none is, behind the last one
-- that was delivered. Everything before it has been acknowledged.
local function first_needed()
  local oldest = redis.call('XPENDING', KEYS[1], group, '-', '+', 1)[1]
  if oldest then
    return oldest[1]
  end
  local ms, sequence = string.match(last_delivered(), '^(%d+)-(%d+)$')
  return ms .. '-' .. string.format('%d', sequence + 1)
end

-- Acknowledged entries must go. Trimming costs a fraction of deleting; only what a longer job holds
-- back is deleted one by one.
local function free(ids)
  redis.call('XACK', KEYS[1], group, unpack(ids))
  if redis.call('XTRIM', KEYS[1], 'MINID', first_needed()) < #ids then
    redis.call('XDEL', KEYS[1], unpack(ids))
  end
end

-- The gate of everything that moves on: only who takes the entry out may put the job elsewhere.
local function taken_out(id, count)
  if checked and not held(id, count) then
    return false
  end
  if redis.call('XACK', KEYS[1], group, id) == 0 then
    lost[#lost + 1] = id
    return false
  end
  redis.call('XDEL', KEYS[1], id)
  return true
end

local function keep(key, verdict, ttl)
  if verdict ~= '' then
    redis.call('SET', result .. key, verdict, 'PX', ttl)
  end
end

local n = tonumber(ARGV[12])
local done = only_held({take(n), take(n), take(checked and n or 0)})
if #done[1] > 0 then
  free(done[1])
  redis.call('HDEL', KEYS[2], unpack(done[2]))
end

n = tonumber(ARGV[13])
local kept = only_held({take(n), take(n), take(checked and n or 0), take(n), take(n)})
if #kept[1] > 0 then
  free(kept[1])
  redis.call('HDEL', KEYS[2], unpack(kept[2]))
  for i = 1, #kept[1] do
    redis.call('SET', result .. kept[2][i], kept[4][i], 'PX', kept[5][i])
  end
end

local now = moving and now_ms()
local earliest = moving and first_due(KEYS[3])
for _ = 1, tonumber(ARGV[14]) do
  local id, key, count, delay, past, envelope = unpack(take(6))
  if taken_out(id, count) then
    if tonumber(delay) > 0 then
      redis.call('ZADD', KEYS[3], string.format('%d', now + tonumber(delay) + 1), key)
      redis.call('HSET', KEYS[4], key, #past .. ':' .. past .. envelope)
      redis.call('HSET', KEYS[2], key, 's')
    else
      local place = redis.call('XADD', KEYS[1], '*', 'j', envelope, 'h', past)
      redis.call('HSET', KEYS[2], key, place)
    end
  end
end
if moving and first_due(KEYS[3]) ~= earliest then
  redis.call('PUBLISH', due_channel, '')
end

-- Each new dead job makes room for itself, a few at a time, so that no step is long.
local function bury_oldest()
  local over = redis.call('XLEN', KEYS[5]) - tonumber(ARGV[10])
  local keep_from = now - tonumber(ARGV[11])
  for i, entry in ipairs(redis.call('XRANGE', KEYS[5], '-', '+', 'COUNT', 10)) do
    if i <= over or tonumber(string.match(entry[1], '^%d+')) < keep_from then
      redis.call('XDEL', KEYS[5], entry[1])
      redis.call('HDEL', KEYS[2], entry[2][2])
    end
  end
end

for _ = 1, tonumber(ARGV[15]) do
  local id, key, count, reason, past, envelope, verdict, ttl = unpack(take(8))
  if taken_out(id, count) then
    local place = redis.call('XADD', KEYS[5], '*', 'k', key, 'r', reason, 'j', envelope, 'h', past)
    redis.call('HSET', KEYS[2], key, 'd' .. place)
    keep(key, verdict, ttl)
    bury_oldest()
  end
end

-- A released job goes back to the front: to the consumer from which anyone may take over. If none
-- waits behind it, the back is the front, and a new entry wakes the workers that wait at once.
local function hand_back(id, key, count)
  local first_new = redis.call('XRANGE', KEYS[1], '(' .. last_delivered(), '+', 'COUNT', 1)[1]
  if count ~= '1' or first_new then
    redis.call('XCLAIM', KEYS[1], group, returned, 0, id, 'RETRYCOUNT', tonumber(count) - 1, 'JUSTID')
    return
  end
  local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
  redis.call('XACK', KEYS[1], group, id)
  redis.call('XDEL', KEYS[1], id)
  redis.call('HSET', KEYS[2], key, redis.call('XADD', KEYS[1], '*', unpack(entry[2])))
end

for _ = 1, tonumber(ARGV[16]) do
  local id, key, count = unpack(take(3))
  if held(id, count) then
    hand_back(id, key, count)
  end
end

if ARGV[8] ~= '' then
  redis.call('PUBLISH', ARGV[7], ARGV[8])
end
return lost
