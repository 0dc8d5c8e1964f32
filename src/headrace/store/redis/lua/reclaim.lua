#!lua flags=allow-oom
-- Take over entries that were handed back or whose lease ran out; atomic, so that one worker gets each and looks at the fleet's pending entries happen once per interval.
-- KEYS: ready jobs dead epoch look
-- ARGV: group returned consumer limit last_chance lease interval crash_limit dead_ms
-- Returns {{id, fields}…, counts…}: a list of claimed entries and, in the same order, a list of their delivery counts.

local group, returned, consumer = ARGV[1], ARGV[2], ARGV[3]
local limit, last_chance = tonumber(ARGV[4]), ARGV[5] == '1'
local lease, interval, crash_limit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local PAGE = 1000

-- The lease of the entry's holder, which stands in its name; ours if it does not.
local function lease_of(holder)
  return tonumber(string.match(holder, '~(%d+)$')) or lease
end

local ids, counts, foreign, left_behind = {}, {}, false, false

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

local function choose(pending)
  ids[#ids + 1] = pending[1]
  counts[pending[1]] = pending[4] + 1
end

for _, pending in ipairs(redis.call('XPENDING', KEYS[1], group, '-', '+', limit, returned)) do
  if wanted(pending[4]) then
    choose(pending)
  end
end

local now = now_ms()
local last, hold, cursor = string.match(redis.call('GET', KEYS[5]) or '', '^(%d+) (%d+) (%S+)$')
last, hold, cursor = tonumber(last), tonumber(hold) or 0, cursor or '-'

if not last or now < last or now - last >= interval then
  -- Nobody looked for a while, or time went backwards: the server or the fleet slept, so every
  -- lease may seem over. Holders get one lease of time to renew.
  if not last or now < last or now - last > 3 * interval then
    hold = now + lease
  end
  if now >= hold then
    local page = redis.call('XPENDING', KEYS[1], group, cursor, '+', PAGE)
    for _, pending in ipairs(page) do
      if #ids >= limit then
        left_behind = true
        break
      end
      if pending[2] ~= returned and pending[3] >= lease_of(pending[2]) and wanted(pending[4]) then
        choose(pending)
        foreign = true
      end
      cursor = '(' .. pending[1]
    end
    if #page < PAGE and #ids < limit then
      cursor = '-'
    end
    local old = string.format('(%d', now - tonumber(ARGV[9]))
    for _, entry in ipairs(redis.call('XRANGE', KEYS[3], '-', old, 'COUNT', 100)) do
      redis.call('XDEL', KEYS[3], entry[1])
      redis.call('HDEL', KEYS[2], entry[2][2])
    end
  end
  -- What was left behind is for the next to look, at once.
  local looked = left_behind and now - interval or now
  redis.call('SET', KEYS[5], string.format('%d %d %s', looked, hold, cursor), 'EX', 86400)
end

if #ids == 0 then
  return {{}, {}}
end
if foreign then
  -- Who settles with an older epoch must first see what it still holds.
  redis.call('INCR', KEYS[4])
end
local claimed = redis.call('XCLAIM', KEYS[1], group, consumer, 0, unpack(ids))
local claimed_counts = {}
for i, entry in ipairs(claimed) do
  claimed_counts[i] = counts[entry[1]]
end
return {claimed, claimed_counts}
