#!lua flags=allow-oom
-- Renew the leases of these entries; atomic, because claiming an entry that was lost meanwhile would steal it back.
-- KEYS: ready level log
-- ARGV: group consumer:str, then *deliveries, for each: receipt count
-- Returns list[bytes]: receipts and counts, in turn, of what this consumer no longer holds.

local group, consumer = ARGV[1], ARGV[2]
local lost = {}
for i = 3, #ARGV, 2 do
  local stream, id = entry_in(ARGV[i])
  if string.sub(ARGV[i], 1, 2) == '@/' then
    stream, id = key.log, string.sub(ARGV[i], 3)
  end
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[2] == consumer and pending[4] == tonumber(ARGV[i + 1]) then
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID')
  else
    lost[#lost + 1] = ARGV[i]
    lost[#lost + 1] = ARGV[i + 1]
  end
end
return lost
