#!lua flags=no-writes
-- All values of a space that have not expired; atomic, so that all are compared with the same time.
-- KEYS: values expiry
-- ARGV: none
-- Returns list[bytes]: names and values in turn.

local now, found = now_ms(), {}
local values = redis.call('HGETALL', key.values)
for i = 1, #values, 2 do
  local until_ms = redis.call('ZSCORE', key.expiry, values[i])
  if not until_ms or tonumber(until_ms) > now then
    found[#found + 1] = values[i]
    found[#found + 1] = values[i + 1]
  end
end
return found
