#!lua flags=allow-oom
-- Delete keys that are left of a removed queue; atomic, so that none of a queue is deleted that is used again.
-- KEYS: ready level levels parked dead scheduled sessions
-- ARGV: last:bool, then *names:bytes
-- Returns int: 1, or 0 if the queue holds jobs again: then nothing is deleted.

local own = key.sessions .. string.match(REQUEST, '^%S+')

-- A request that was given up may still arrive, and must not be applied.
local function is_needed(name)
  if name == own then
    return true
  elseif string.sub(name, 1, #key.sessions) ~= key.sessions then
    return false
  end
  local record = redis.pcall('GET', name)
  return type(record) == 'string' and string.find(record, '^%d+$') ~= nil
end

if jobs_held(streams_in_use()) > 0 then
  return applied(0)
end
for i = 2, #ARGV do
  if not is_needed(ARGV[i]) then
    redis.call('UNLINK', ARGV[i])
  end
end
if ARGV[1] == '1' then
  -- Nothing is left to protect: a repeat of this request does the same again.
  redis.call('UNLINK', own)
  return 1
end
return applied(1)
