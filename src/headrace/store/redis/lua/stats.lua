#!lua flags=no-writes
-- What was counted in some minutes; atomic, so that the minute that runs is read as one.
-- KEYS: minute
-- ARGV: since
-- Returns for each minute that has any {minute, name, count…}.

local found = {}
local last = math.floor(now_ms() / 60000)
for minute = math.max(tonumber(ARGV[1]), last - 1500), last do
  local number = string.format('%d', minute)
  local counts = redis.call('HGETALL', key.minute .. number)
  if #counts > 0 then
    table.insert(counts, 1, number)
    found[#found + 1] = counts
  end
end
return found
