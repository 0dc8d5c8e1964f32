#!lua
-- Send dead jobs again as they were; atomic and gated by the deletion, so that asking twice replays once.
-- KEYS: ready jobs dead
-- ARGV: result, then the job keys
-- Returns for each job 1 if it was dead and is ready now, 0 otherwise.

local replayed = {}
for i = 2, #ARGV do
  local key = ARGV[i]
  local place = redis.call('HGET', KEYS[2], key)
  local id = place and string.match(place, '^d(.+)$')
  local entry = id and redis.call('XRANGE', KEYS[3], id, id)[1]
  replayed[i - 1] = 0
  if entry and redis.call('XDEL', KEYS[3], id) == 1 then
    local ready = redis.call('XADD', KEYS[1], '*', 'j', entry[2][6])
    redis.call('HSET', KEYS[2], key, ready)
    redis.call('DEL', ARGV[1] .. key)
    replayed[i - 1] = 1
  end
end
return replayed
