#!lua flags=allow-oom
-- Renew the leases of these entries; atomic, because claiming an entry that was lost meanwhile would steal it back.
-- KEYS: ready level log
-- ARGV: group consumer:str, then *deliveries, for each: receipt count
-- Returns list[bytes]: receipts and counts, in turn, of what this consumer no longer holds.

local group, consumer = ARGV[1], ARGV[2]
local lost = {}
for i = 3, #ARGV, 2 do
  if still_holds(group, consumer, ARGV[i], ARGV[i + 1]) then
    local stream, id = entry_at(ARGV[i])
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID')
  else
    lost[#lost + 1] = ARGV[i]
    lost[#lost + 1] = ARGV[i + 1]
  end
end
return lost
