#!lua flags=no-writes
-- The state of groups of a topic; atomic, so that the figures of each are of one moment.
-- KEYS: ready log log_jobs stopped scheduled lane counted, of each queue
-- ARGV: groups
-- Returns list[list[int]]: for each {behind, oldest, stopped, waiting, since}: `oldest` is when its oldest unsettled event was added, 0 if there is none; `waiting` are events behind stopped keys, `since` when the first was stopped.

-- Counting what waits behind each would take too long if there are many.
local KEYS_COUNTED = 1000

local oldest
local function consider(entry)
  local ms = entry and tonumber(string.match(entry[1], '^%d+'))
  if ms and (not oldest or ms < oldest) then
    oldest = ms
  end
end

-- When an event in the group's own queue was added to the log, if that still has it.
local function consider_own(event, otherwise)
  local at = event and get_place(key.log_jobs, event)
  consider(at and {at} or otherwise)
end

-- Only the first few: the oldest is mostly among them.
local function consider_queue()
  for _, entry in ipairs(redis.call('XRANGE', key.ready, '-', '+', 'COUNT', 10)) do
    consider_own(id_of(field(entry[2], 'j')), entry)
  end
  for _, event in ipairs(redis.call('ZRANGE', key.scheduled, 0, 9)) do
    consider_own(event)
  end
end

-- How many events wait behind stopped keys, and since when.
local function behind_stopped()
  local waiting, since = 0, 0
  local records = redis.call('HSCAN', key.stopped, 0, 'COUNT', KEYS_COUNTED)[2]
  for i = 1, math.min(#records, 2 * KEYS_COUNTED), 2 do
    local lane, at = key.lane .. records[i], tonumber(string.match(records[i + 1], '^%a+ (%d+) ')) or 0
    waiting = waiting + redis.call('ZCARD', lane)
    if at > 0 and (since == 0 or at < since) then
      since = at
    end
    if i <= 20 then
      consider_own(redis.call('ZRANGE', lane, 0, 0)[1])
    end
  end
  return waiting, since
end

local figures = {}
each_queue(ARGV[1], function(group)
  oldest = nil
  local info = group_info(key.log, group)
  if info then
    consider(redis.call('XPENDING', key.log, group, '-', '+', 1)[1])
    consider(redis.call('XRANGE', key.log, '(' .. info.last, '+', 'COUNT', 1)[1])
  end
  consider_queue()
  local waiting, since = behind_stopped()
  figures[#figures + 1] = {behind(key.log, group, info), oldest or 0, redis.call('HLEN', key.stopped), waiting, since}
end)
return figures
