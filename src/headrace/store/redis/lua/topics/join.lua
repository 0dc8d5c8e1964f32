#!lua flags=allow-oom
-- Create a group of a topic if there is none; atomic, so that one of two callers decides where it begins.
-- KEYS: log log_jobs groups counted disbanded sessions
-- ARGV: group member:str again:bool kind:str value:Argument
-- Returns int: 1 if it is new, 0 if not, -1 if the event where it should begin is not in the log.

-- again: the caller has seen the group. If it is missing, it was lost with its log, unless it was
-- removed on purpose.
local group, member, again = ARGV[1], ARGV[2], ARGV[3] == '1'
if again and redis.call('EXISTS', key.disbanded) == 1 then
  -- Keep this as long as a worker might create the group again.
  redis.call('EXPIRE', key.disbanded, 3600)
  return 0
end
redis.call('DEL', key.disbanded)
local now = string.format('%d', now_ms())
local is_new = 0
if not group_info(key.log, group) then
  local id = again and '0-0' or place_in(key.log, key.log_jobs, ARGV[4], ARGV[5])
  if not id then
    return -1
  end
  set_place('CREATE', key.log, group, id, 'MKSTREAM')
  redis.call('HSET', key.counted, group, server_life())
  is_new = 1
end
local wanted = string.match(redis.call('HGET', key.groups, group) or '', '^(.*) %d+$')
if is_new == 1 or wanted ~= member then
  redis.call('HSET', key.groups, group, member .. ' ' .. now)
end
return applied(is_new)
