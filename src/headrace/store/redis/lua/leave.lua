#!lua flags=allow-oom
-- Hand back what a consumer still holds and remove it; atomic, because removing a consumer drops what is pending with it.
-- KEYS: ready
-- ARGV: group returned consumer
-- Returns how many entries were handed back.

local group, returned, consumer = ARGV[1], ARGV[2], ARGV[3]
local back = 0
while true do
  local page = redis.call('XPENDING', KEYS[1], group, '-', '+', 1000, consumer)
  if #page == 0 then
    break
  end
  for _, pending in ipairs(page) do
    redis.call('XCLAIM', KEYS[1], group, returned, 0, pending[1], 'RETRYCOUNT', pending[4] - 1, 'JUSTID')
  end
  back = back + #page
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, consumer)
return back
