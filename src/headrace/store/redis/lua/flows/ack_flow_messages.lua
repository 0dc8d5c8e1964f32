#!lua flags=allow-oom
-- Forget messages that have been delivered; atomic, so that an empty stream leaves no key.
-- KEYS: flow_messages flow_relay sessions
-- ARGV: *entries:str, the entry ids
-- Returns int: how many are left.

redis.call('XDEL', key.flow_messages, unpack(ARGV))
local left = redis.call('XLEN', key.flow_messages)
if left == 0 then
  redis.call('DEL', key.flow_messages, key.flow_relay)
end
return applied(left)
