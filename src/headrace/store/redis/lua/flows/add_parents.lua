#!lua
-- Let blocked jobs wait for one more job each, which one of those adds that they wait for; atomic, so that none goes on before.
-- KEYS: jobs flow sessions
-- ARGV: *additions:bytes, for each: the ids of the child, of the job that is added, and of the one that adds it
-- Returns list[bytes]: for each '1' if the child waits for it, '2' if it has ended, '0' if the child does not wait for the one that adds it.

-- What is added but not confirmed is in '?' + the one that adds it: it is dropped when that one is done. '*' + the
-- added one says that it is among the parents.
local function add(child, parent, by)
  local flow, place = key.flow .. child, get_place(key.jobs, child) or ''
  local waits = string.find(place, '^[fd]') and redis.call('EXISTS', flow) == 1
  if not waits or redis.call('HEXISTS', flow, by) == 1 then
    return '0'
  elseif redis.call('HEXISTS', flow, parent) == 1 then
    return '2'
  elseif redis.call('HSETNX', flow, '*' .. parent, '1') == 1 then
    local record = #parent .. ':' .. parent
    redis.call('HSET', flow, '@', (redis.call('HGET', flow, '@') or '') .. record,
      '?' .. by, (redis.call('HGET', flow, '?' .. by) or '') .. record)
    redis.call('HINCRBY', flow, '#', 1)
  end
  return '1'
end

local answers = {}
for i = 1, #ARGV, 3 do
  answers[#answers + 1] = add(ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
return applied(answers)
