#!lua flags=no-writes
-- A part of the history; atomic, so that no chunk is dropped while it is read.
-- KEYS: history shelves
-- ARGV: limit:int bytes_most:int going_on:bool, then *positions, for each shelf: name chunk place
-- Returns list[Any]: the time in ms, then for each shelf {name, keep_ms, first, hidden, {chunk, data, …}}, the latest chunk first; without a position, none of a shelf that is `going_on`.

local limit, bytes_most, positions = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for i = 4, #ARGV, 3 do
  positions[ARGV[i]] = {tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])}
end

local function chunks_of(shelf, from, first, place)
  local chunks, jobs, size = {}, 0, 0
  for chunk = from, first, -1 do
    if jobs >= limit or size > bytes_most then
      break
    end
    local number = string.format('%d', chunk)
    local data = redis.call('HGET', key.history .. shelf, 'd' .. number)
    if data then
      chunks[#chunks + 1], chunks[#chunks + 2] = number, data
      local count = redis.call('HSTRLEN', key.history .. shelf, 'i' .. number) / 17
      jobs, size = jobs + (chunk == from and place and math.min(place, count) or count), size + #data
    end
  end
  return chunks
end

local answer = {now_ms()}
for _, each in ipairs(shelves_of()) do
  local shelf, first, last, hidden, keep_ms = unpack(each)
  local position = positions[shelf]
  if position or ARGV[3] == '0' then
    local from = position and math.min(position[1], last) or last
    answer[#answer + 1] = {shelf, keep_ms, first, hidden, chunks_of(shelf, from, first, position and position[2])}
  end
end
return answer
