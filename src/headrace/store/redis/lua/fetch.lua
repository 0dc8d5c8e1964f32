#!lua flags=allow-oom
-- Read a queue that has priorities, the highest first; atomic, so that no lower job is read while a higher one waits.
-- KEYS: ready level levels
-- ARGV: group consumer:str limit:int
-- Returns list[Any]: the entries, as {receipt, fields}.

local left, entries = tonumber(ARGV[3]), {}

local function read(stream, prefix)
  local reply = left > 0 and redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', left, 'STREAMS', stream, '>')
  for _, entry in ipairs(reply and reply[1][2] or {}) do
    entries[#entries + 1] = {prefix .. entry[1], entry[2]}
    left = left - 1
  end
end

for _, level in ipairs(levels_in(key.levels)) do
  read(key.level .. level, level .. '/')
end
read(key.ready, '')
return entries
