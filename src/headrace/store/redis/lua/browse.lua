#!lua flags=no-writes
-- A page of the ids of jobs in a state; atomic, so that pending entries are not taken for waiting ones.
-- KEYS: ready level levels jobs parked scheduled log
-- ARGV: group returned state:str runner:str cursor:str limit:int
-- Returns list[bytes]: {cursor, key…}; the cursor is '' after the last page.

local group, returned, state, cursor, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[5], tonumber(ARGV[6])
-- The label of the runner whose waiting jobs are wanted, nil for all.
local only = state == 'waiting' and ({loop = '', thread = 't', process = 'p'})[ARGV[4]] or nil
-- How many bytes of bodies one call reads.
local MOST_READ = 1000000

-- The place of a label among all that there may be, as in `levels_in`; 0 for the stream without one.
local function rank(label)
  local of_batches, runner, priority = string.match(label, '^(b?)([tp]?)(%d*)$')
  local kind = runner == 't' and 2 or runner == 'p' and 1 or 0
  -- In front of batches are jobs of threads and processes, behind them those of the loop.
  kind = of_batches == 'b' and kind + 1 or kind > 0 and kind + 3 or 0
  return (tonumber(priority) or 0) * 6 + kind
end

-- The streams one after the other. A cursor is a label and the last id seen in its stream.
local function streams()
  local levels = levels_in(key.levels)
  table.sort(levels, function(one, other) return rank(one) > rank(other) end)
  levels[#levels + 1] = '0'
  local begun, last = string.match(cursor, '^(b?[tp]?%d*) (.+)$')
  local of_log = string.match(cursor, '^@ (.+)$')
  local found = {}
  for _, level in ipairs(of_log and {} or levels) do
    local wanted = not only or string.match(level, '^b?([tp]?)') == only
    if wanted and (not begun or rank(level) <= rank(begun)) then
      found[#found + 1] = {level, level == '0' and key.ready or key.level .. level, level == begun and '(' .. last or '-'}
    end
  end
  if key.log ~= key.ready then
    -- Most of the log is settled: only events at its end can be waiting.
    local info = state == 'waiting' and group_info(key.log, group)
    found[#found + 1] = {'@', key.log, of_log and '(' .. of_log or (info and '(' .. info.last or '-')}
  end
  return found
end

local function add_key(page, entry)
  local job_id = id_of(field(entry[2], 'j'))
  if job_id ~= '' then
    page[#page + 1] = job_id
  end
end

local function add_running(page, stream, from)
  local found, last = redis.pcall('XPENDING', stream, group, from, '+', limit), nil
  if found.err then
    return 0
  end
  for _, pending in ipairs(found) do
    last = pending[1]
    local entry = pending[2] ~= returned and redis.call('XRANGE', stream, last, last)[1]
    if entry then
      add_key(page, entry)
    end
  end
  return #found, last
end

local function add_waiting(page, stream, from)
  local found, last = redis.call('XRANGE', stream, from, '+', 'COUNT', limit), nil
  -- Everything after the last entry that was ever handed out is waiting.
  local info = #found > 0 and group_info(stream, group)
  local handed_out = info and info.last or '0-0'
  for _, entry in ipairs(found) do
    last = entry[1]
    local pending = not precedes_id(handed_out, last) and redis.call('XPENDING', stream, group, last, last, 1)[1]
    if not pending or pending[2] == returned then
      add_key(page, entry)
    end
  end
  return #found, last
end

local function by_stream()
  local page = {''}
  for _, place in ipairs(streams()) do
    local level, stream, from = unpack(place)
    local add = state == 'running' and add_running or add_waiting
    local seen, last = add(page, stream, from)
    if seen >= limit then
      page[1] = level .. ' ' .. last
      return page
    end
    limit = limit - seen
  end
  return page
end

-- Whether one string comes before another byte by byte, as in a sorted set; `<` follows a locale.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local mine, theirs = string.byte(one, i), string.byte(other, i)
    if mine ~= theirs then
      return mine < theirs
    end
  end
  return #one < #other
end

-- The rank of the first job after the cursor, which is the time and id of the last one seen. Ranks
-- themselves change when earlier jobs go.
local function first_behind()
  local due, hex = string.match(cursor, '^(%d+) (%x*)$')
  if not due then
    return 0
  end
  local last = string.gsub(hex, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  local low, high = 0, redis.call('ZCARD', key.scheduled)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = redis.call('ZRANGE', key.scheduled, middle, middle, 'WITHSCORES')
    local order = tonumber(found[2]) - tonumber(due)
    if order > 0 or (order == 0 and precedes(last, found[1])) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function scheduled()
  local from, page = first_behind(), {''}
  local found = redis.call('ZRANGE', key.scheduled, from, from + limit - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    page[#page + 1] = found[i]
  end
  if #found == 2 * limit then
    local hex = string.gsub(found[#found - 1], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
    page[1] = string.format('%d', found[#found]) .. ' ' .. hex
  end
  return page
end

-- Blocked jobs are among the parked ones. The server hands out their bodies too, so it is asked for few at
-- a time, and the page ends early if they are large.
local function blocked()
  local job_ids, places, size = {}, {}, 0
  repeat
    local reply = redis.call('HSCAN', key.parked, cursor == '' and '0' or cursor, 'COUNT', math.min(limit, 20))
    cursor = reply[1] == '0' and '' or reply[1]
    for i = 1, #reply[2], 2 do
      job_ids[#job_ids + 1] = reply[2][i]
      size = size + #reply[2][i + 1]
    end
  until cursor == '' or #job_ids >= limit or size >= MOST_READ
  get_places(key.jobs, job_ids, places)
  local page = {cursor}
  for _, job_id in ipairs(job_ids) do
    if string.find(places[job_id] or '', '^[kgf]') then
      page[#page + 1] = job_id
    end
  end
  return page
end

if state == 'scheduled' then
  return scheduled()
elseif state == 'blocked' then
  return blocked()
end
return by_stream()
