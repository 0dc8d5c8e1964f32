#!lua flags=no-writes
-- The state of groups of a topic; atomic, so that the figures of each are of one moment.
-- KEYS: ready log log_jobs stopped scheduled lane counted, of each queue
-- ARGV: groups
-- Returns list[list[int]]: for each {behind, oldest, stopped}: `oldest` is when its oldest unsettled event was added, 0 if there is none.

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
  for i, lane in ipairs(redis.call('HKEYS', key.stopped)) do
    if i > 10 then
      break
    end
    consider_own(redis.call('ZRANGE', key.lane .. lane, 0, 0)[1])
  end
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
  figures[#figures + 1] = {behind(key.log, group, info), oldest or 0, redis.call('HLEN', key.stopped)}
end)
return figures
