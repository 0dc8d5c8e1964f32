#!lua flags=allow-oom
-- Forget letters that have been delivered; atomic, so that an empty outbox leaves no key.
-- KEYS: outbox courier sessions
-- ARGV: the entry ids
-- Returns how many are left.

redis.call('XDEL', key.outbox, unpack(ARGV))
local left = redis.call('XLEN', key.outbox)
if left == 0 then
  redis.call('DEL', key.outbox, key.courier)
end
return applied(left)
