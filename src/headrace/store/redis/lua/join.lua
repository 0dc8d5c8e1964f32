#!lua flags=allow-oom
-- See to it that a group of a topic exists; atomic, so that of two who make it one says where it begins.
-- KEYS: log log_jobs groups disbanded
-- ARGV: group member kind value
-- Returns 1 if it is new, 0 if not, -1 if the event where it should begin is not in the log.

redis.call('DEL', key.disbanded)
local group, member = ARGV[1], ARGV[2]
local now = string.format('%d', now_ms())
local is_new = 0
if not group_info(key.log, group) then
  local id = place_in(key.log, key.log_jobs, ARGV[3], ARGV[4])
  if not id then
    return -1
  end
  redis.call('XGROUP', 'CREATE', key.log, group, id, 'MKSTREAM', 'ENTRIESREAD', ever_until(key.log, id))
  is_new = 1
end
local record = string.match(redis.call('HGET', key.groups, group) or '', '^(.*) %d+$')
if is_new == 1 or record ~= member then
  redis.call('HSET', key.groups, group, member .. ' ' .. now)
end
return is_new
