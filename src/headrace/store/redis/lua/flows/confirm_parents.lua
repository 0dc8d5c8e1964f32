#!lua flags=allow-oom
-- Say that jobs which were added to those that others wait for are stored; atomic with what `add_parents` wrote.
-- KEYS: flow sessions
-- ARGV: *additions:bytes, for each: the ids of the child, of the job that was added, and of the one that added it
-- Returns int: how many were confirmed.

local confirmed = 0
for i = 1, #ARGV, 3 do
  local flow, record, field_name = key.flow .. ARGV[i], #ARGV[i + 1] .. ':' .. ARGV[i + 1], '?' .. ARGV[i + 2]
  local open = redis.call('HGET', flow, field_name) or ''
  local first, last = string.find(open, record, 1, true)
  if first then
    local rest = string.sub(open, 1, first - 1) .. string.sub(open, last + 1)
    if rest == '' then
      redis.call('HDEL', flow, field_name)
    else
      redis.call('HSET', flow, field_name, rest)
    end
    confirmed = confirmed + 1
  end
end
return applied(confirmed)
