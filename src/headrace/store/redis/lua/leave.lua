#!lua flags=allow-oom
-- Hand back what a consumer still holds and remove it; atomic, because removing a consumer drops what is pending with it.
-- KEYS: ready level levels log promoter flow_relay due_channel control_channel sessions
-- ARGV: group returned consumer:str
-- Returns int: how many entries were handed back.

local group, returned, consumer = ARGV[1], ARGV[2], ARGV[3]

local function leave(stream)
  local back = 0
  while true do
    local page = redis.call('XPENDING', stream, group, '-', '+', 1000, consumer)
    if #page == 0 then
      break
    end
    for _, pending in ipairs(page) do
      redis.call('XCLAIM', stream, group, returned, 0, pending[1], 'RETRYCOUNT', pending[4] - 1, 'JUSTID')
    end
    back = back + #page
  end
  redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
  return back
end

local back = leave(key.ready)
if key.log ~= key.ready then
  back = back + leave(key.log)
end
for _, level in ipairs(levels_in(key.levels)) do
  back = back + leave(key.level .. level)
end
if back > 0 then
  redis.call('PUBLISH', key.control_channel, '')
end
-- Others need not wait until its tickets expire.
for _, ticket in ipairs({key.promoter, key.flow_relay}) do
  if redis.call('GET', ticket) == consumer then
    redis.call('DEL', ticket)
    redis.call('PUBLISH', key.due_channel, '')
  end
end
return applied(back)
