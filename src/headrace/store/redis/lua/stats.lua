#!lua flags=no-writes
-- The counts of some minutes; atomic, so that the present minute is read as a whole.
-- KEYS: minute, of each queue
-- ARGV: groups since:int most:int
-- Returns list[list[list[bytes]]]: for each queue {minute, name, count…} of each minute that has any; stops before the last queues once `most` minutes were read.

local last = math.floor(now_ms() / 60000)
local first = math.max(tonumber(ARGV[2]), last - 1500)

local function minutes()
  local found = {}
  for minute = first, last do
    local number = string.format('%d', minute)
    local counts = redis.call('HGETALL', key.minute .. number)
    if #counts > 0 then
      table.insert(counts, 1, number)
      found[#found + 1] = counts
    end
  end
  return found
end

local queues = {}
each_queue(ARGV[1], function()
  if #queues * (last - first + 1) < tonumber(ARGV[3]) then
    queues[#queues + 1] = minutes()
  end
end)
return queues
