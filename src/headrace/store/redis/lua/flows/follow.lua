#!lua
-- Make jobs children of another, so that its end arrives at them; atomic, so that it cannot end in between.
-- KEYS: jobs children result sessions
-- ARGV: parent:bytes children:bytes
-- Returns list[bytes]: {} if it will arrive, else the state in which the job has ended and its verdict, {'', ''} if it is unknown.

local place = get_place(key.jobs, ARGV[1])
if place and string.sub(place, 1, 1) ~= 'd' then
  local records = redis.call('HGET', key.children, ARGV[1]) or ''
  redis.call('HSET', key.children, ARGV[1], records .. ARGV[2])
  return applied({})
end
return applied({place and 'dead' or '', redis.call('GET', key.result .. ARGV[1]) or ''})
