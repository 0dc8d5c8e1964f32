#!lua flags=allow-oom
-- The oldest letters to other queues; atomic with the ticket, so that one worker at a time delivers them.
-- KEYS: outbox courier
-- ARGV: consumer limit ticket
-- Returns entries, as {id, fields}.

local holder = redis.call('GET', key.courier)
-- One that lasts longer than any ticket was given out before the clock was set back.
if holder and holder ~= ARGV[1] and redis.call('PTTL', key.courier) <= tonumber(ARGV[3]) then
  return {}
end
local letters = redis.call('XRANGE', key.outbox, '-', '+', 'COUNT', ARGV[2])
if #letters > 0 then
  redis.call('SET', key.courier, ARGV[1], 'PX', ARGV[3])
end
return letters
