#!lua flags=allow-oom
-- The oldest messages to other queues; atomic with the ticket, so that one worker at a time delivers them.
-- KEYS: flow_messages flow_relay
-- ARGV: consumer:str limit:int ticket:int
-- Returns list[Any]: entries, as {id, fields}.

local holder = redis.call('GET', key.flow_relay)
-- A ticket that lasts longer than any was taken before the clock was set back.
if holder and holder ~= ARGV[1] and redis.call('PTTL', key.flow_relay) <= tonumber(ARGV[3]) then
  return {}
end
local messages = redis.call('XRANGE', key.flow_messages, '-', '+', 'COUNT', ARGV[2])
if #messages > 0 then
  redis.call('SET', key.flow_relay, ARGV[1], 'PX', ARGV[3])
end
return messages
