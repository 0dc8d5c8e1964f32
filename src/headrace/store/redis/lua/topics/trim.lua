#!lua flags=allow-oom
-- Remove the events of a log that no group needs any more; atomic, so that none is removed while a group gets it.
-- KEYS: ready jobs groups trimmer sessions
-- ARGV: retention:int gone:int most:int ticket:int
-- Returns list[Any]: {removed, more, group…}: `more` is 1 if there is more to remove; the groups are gone, and hold nothing back.

if redis.call('PTTL', key.trimmer) > tonumber(ARGV[4]) then
  -- The ticket was taken before the clock was set back.
  redis.call('DEL', key.trimmer)
end
if not redis.call('SET', key.trimmer, '1', 'NX', 'PX', ARGV[4]) then
  return {0, 0}
end
local now, gone = now_ms(), {}
local limit = string.format('%d', math.max(1, now - tonumber(ARGV[1]))) .. '-0'
local needed = first_needed_of(key.ready, now - tonumber(ARGV[2]), gone)
if needed and precedes_id(needed, limit) then
  limit = needed
end
local removed = drop_events(key.ready, tonumber(ARGV[3]), limit)
local more = removed >= tonumber(ARGV[3])
if more then
  redis.call('DEL', key.trimmer)
end
return applied({removed, more and 1 or 0, unpack(gone)})
