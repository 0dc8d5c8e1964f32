#!lua
-- Make jobs children of another, so that its end arrives at them; atomic, so that it cannot end in between.
-- KEYS: jobs children flow result sessions
-- ARGV: parent:bytes children:bytes
-- Returns list[bytes]: {} if it will arrive, else the state in which the job has ended, its verdict, and what failed before it; empty if it is unknown.

local place = get_place(key.jobs, ARGV[1])
local is_dead = place and string.sub(place, 1, 1) == 'd'
if place then
  -- Those of a dead one go on when it is replayed.
  local records = redis.call('HGET', key.children, ARGV[1]) or ''
  redis.call('HSET', key.children, ARGV[1], records .. ARGV[2])
end
if place and not is_dead then
  return applied({})
end
return applied({
  is_dead and 'dead' or '', redis.call('GET', key.result .. ARGV[1]) or '', is_dead and cause_of(key.flow .. ARGV[1]) or '',
})
