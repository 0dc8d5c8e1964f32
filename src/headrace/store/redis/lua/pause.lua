#!lua flags=allow-oom
-- Pause or resume a queue or one of its tasks; atomic, so that no job held because of it is forgotten.
-- KEYS: *
-- ARGV: events:int queue task:str gate:str on:bool
-- Returns int: 1 if that changed anything.

local changed
if ARGV[5] == '1' then
  changed = redis.call('SADD', key.paused, ARGV[3])
else
  changed = redis.call('SREM', key.paused, ARGV[3])
  if ARGV[3] ~= '' and redis.call('EXISTS', key.line .. ARGV[4]) == 1 then
    arm(ARGV[4], 0)
  end
end
control_changed = true
finish(0, '', {}, '')
return applied(changed)
