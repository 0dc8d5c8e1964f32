#!lua flags=allow-oom
-- Let the events of a stopped key be handled again; atomic, so that the lane is left once.
-- KEYS: *
-- ARGV: events:int queue lane:str
-- Returns int: 1 if the key was stopped, 0 if not.

local record = redis.call('HGET', key.stopped, ARGV[3])
if not record then
  return 0
end
redis.call('HDEL', key.stopped, ARGV[3])
if string.sub(record, 1, 7) == 'blocked' then
  leave_lane(ARGV[3])
end
finish(0, '', {}, '')
return applied(1)
