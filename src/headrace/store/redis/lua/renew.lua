#!lua flags=allow-oom
-- Begin the leases of these entries anew; atomic, because claiming an entry that was lost meanwhile would steal it back.
-- KEYS: ready
-- ARGV: group consumer, then for each delivery: id count
-- Returns the ids that this consumer no longer holds.

local group, consumer = ARGV[1], ARGV[2]
local lost = {}
for i = 3, #ARGV, 2 do
  local id, count = ARGV[i], tonumber(ARGV[i + 1])
  local pending = redis.call('XPENDING', KEYS[1], group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == count then
    redis.call('XCLAIM', KEYS[1], group, consumer, 0, id, 'JUSTID')
  else
    lost[#lost + 1] = id
  end
end
return lost
