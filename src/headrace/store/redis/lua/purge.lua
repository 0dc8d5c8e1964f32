#!lua flags=allow-oom
-- Forget dead jobs; atomic, so that none stays in the index or has a verdict without its entry.
-- KEYS: jobs dead
-- ARGV: result, then the job keys
-- Returns for each job 1 if it was dead and is gone, 0 otherwise.

local purged = {}
for i = 2, #ARGV do
  local key = ARGV[i]
  local place = redis.call('HGET', KEYS[1], key)
  local id = place and string.match(place, '^d(.+)$')
  purged[i - 1] = 0
  if id then
    redis.call('XDEL', KEYS[2], id)
    redis.call('HDEL', KEYS[1], key)
    redis.call('DEL', ARGV[1] .. key)
    purged[i - 1] = 1
  end
end
return purged
