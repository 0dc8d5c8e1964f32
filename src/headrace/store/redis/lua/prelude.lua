-- Functions that several scripts share; each script gets those that it needs. `key` has the names of its KEYS.

-- The server's time in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The answer to this request if it was applied before; see `connection/requests.py`. REQUEST is its session and
-- number, then those of others that must not be applied any more.
local function answer_before()
  local session, number, others = string.match(REQUEST, '^(%S+) (%d+)(.*)$')
  for other, last in string.gmatch(others, '(%S+) (%d+)') do
    local record = redis.call('GET', key.sessions .. other)
    if not record or tonumber(string.match(record, '^%d+')) < tonumber(last) then
      redis.call('SET', key.sessions .. other, last, 'EX', REMEMBERED)
    end
  end
  local record = redis.call('GET', key.sessions .. session)
  local last, at = string.match(record or '', '^(%d+) ?()')
  if not last or tonumber(last) < tonumber(number) then
    return nil
  elseif last == number and at <= #record then
    return cmsgpack.unpack(string.sub(record, at))
  end
  return redis.error_reply('VOID this request was given up, or is older than one that was applied')
end

-- Remember that this request was applied, with its answer.
local function applied(answer)
  local session, number = string.match(REQUEST, '^(%S+) (%d+)')
  redis.call('SET', key.sessions .. session, number .. ' ' .. cmsgpack.pack(answer), 'EX', REMEMBERED)
  return answer
end

-- The time that a sender means: '+ms' from now, '@ms' at that time.
local function due_at(when, now)
  local due = tonumber(string.sub(when, 2))
  if string.sub(when, 1, 1) == '+' then
    -- Plus 1: `now` has lost its fraction, and no job may start early.
    return now + due + 1
  end
  return due
end

-- The ids in a list of parents. Each follows its length and a colon.
local function parents_in(names)
  local parents, at = {}, 1
  while at <= #names do
    local size, start = string.match(names, '^(%d+):()', at)
    if not start then
      break
    end
    at = start + tonumber(size)
    parents[#parents + 1] = string.sub(names, start, at - 1)
  end
  return parents
end

-- Which job failed first, of those that keep a dead job from running; '' if none does. `flow` is what it waits for.
local function cause_of(flow)
  local first = redis.pcall('HGET', flow, '~')
  if type(first) ~= 'string' then
    return ''
  end
  local cause = string.match(redis.call('HGET', flow, '!' .. first) or '', '^x%d+ (.*)$')
  if cause then
    return cause
  end
  for _, parent in ipairs(parents_in(redis.call('HGET', flow, '@') or '')) do
    cause = string.match(redis.call('HGET', flow, '!' .. parent) or '', '^x%d+ (.*)$')
    if cause then
      return cause
    end
  end
  return ''
end

-- An error reply if a key is not of its type: an error half way would leave a job in no place.
local function wrong_type(kinds)
  for name, kind in pairs(kinds) do
    local found = redis.call('TYPE', name).ok
    if found ~= kind and found ~= 'none' then
      return redis.error_reply('WRONGTYPE ' .. name .. ' is a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- The index of a queue says where each job is. It is many small hashes, the buckets, which the server packs;
-- `index` is the name that those of a queue begin with.

-- The name of a job's bucket, without that of the index; see `QueueKeys.bucket_of`. Jobs that were sent together
-- share it. Of ids that are not ours, those do that differ in the last byte, and some others.
local function bucket_of(job_id)
  local variant = #job_id == 16 and string.byte(job_id, 9)
  if variant and variant >= 128 and variant < 192 then
    return string.sub(job_id, 9, 12)
  end
  return '=' .. string.sub(redis.sha1hex(string.sub(job_id, 1, -2)), 1, 4)
end

-- These values by bucket, at most a few thousand in a list: job ids, or with a `step` of 2 ids and places in turn.
local function in_buckets(values, step)
  local sub, buckets, of_name = string.sub, {}, {}
  local bucket, size, own, start
  for i = 1, #values, step do
    local job_id = values[i]
    -- Mostly it has the bucket of the one before. To ask `bucket_of` would cost more than all else here.
    local is_same = own and #job_id == 16 and sub(job_id, 9, 12) == own or start and sub(job_id, 1, -2) == start
    if not is_same or size >= 4000 then
      local name = bucket_of(job_id)
      bucket = of_name[name]
      if not bucket or #bucket >= 4000 then
        bucket = {name = name}
        of_name[name] = bucket
        buckets[#buckets + 1] = bucket
      end
      size, own = #bucket, #name == 4 and name
      start = not own and sub(job_id, 1, -2)
    end
    bucket[size + 1] = job_id
    if step == 2 then
      bucket[size + 2] = values[i + 1]
    end
    size = size + step
  end
  return buckets
end

-- The place of one job; false if it has none.
local function get_place(index, job_id)
  local bucket = index .. bucket_of(job_id)
  local place = redis.pcall('HGET', bucket, job_id)
  return type(place) == 'string' and place
end

-- Put the places of these jobs into a table, `missing` for those that have none, unless that is nil.
local function get_places(index, job_ids, found, missing)
  for _, ids in ipairs(in_buckets(job_ids, 1)) do
    local bucket = index .. ids.name
    -- New jobs mostly have new buckets.
    local page = redis.call('EXISTS', bucket) == 1 and redis.pcall('HMGET', bucket, unpack(ids))
    for i = 1, (page or missing ~= nil) and #ids or 0 do
      local place = page and page[i] or missing
      if place ~= nil then
        found[ids[i]] = place
      end
    end
  end
end

-- Write the places of jobs: job id, place, job id, place… A bucket that is not a hash is replaced: a script that
-- failed over it half way would lose jobs.
local function set_places(index, placed)
  for _, values in ipairs(in_buckets(placed, 2)) do
    local bucket = index .. values.name
    local reply = redis.pcall('HSET', bucket, unpack(values))
    if type(reply) == 'table' then
      redis.log(redis.LOG_WARNING, 'headrace: ' .. bucket .. ' was not a hash; it is replaced')
      redis.call('DEL', bucket)
      redis.call('HSET', bucket, unpack(values))
    end
  end
end

local function remove_places(index, job_ids)
  for _, ids in ipairs(in_buckets(job_ids, 1)) do
    local bucket = index .. ids.name
    redis.pcall('HDEL', bucket, unpack(ids))
  end
end

-- The labels of the streams in use, the highest priority first; other values are passed over. A label is
-- 't' for threads, 'p' for processes, nothing for the loop, and then the priority unless that is 0. Batches that have
-- gathered are in streams of their own: 'b' is before all that.
local function levels_in(name)
  local found = {}
  for _, label in ipairs(redis.call('ZREVRANGE', name, 0, -1)) do
    if string.find(label, '^b?[tp]?[1-9]%d*$') or string.find(label, '^b?[tp]$') or label == 'b' then
      found[#found + 1] = label
    end
  end
  return found
end

-- The label of the runner that an envelope names in its second byte.
local function runner_label(envelope)
  local format = string.byte(envelope, 2)
  return format == 2 and 't' or format == 3 and 'p' or ''
end

-- Name the stream of a label among those in use; whether it was not there before.
local function use_level(label, priority, group)
  if redis.call('ZADD', key.levels, priority, label) == 0 then
    return false
  end
  redis.pcall('XGROUP', 'CREATE', key.level .. label, group, '0', 'MKSTREAM')
  return true
end

-- The stream and the entry id of a place.
local function entry_in(place)
  local label, id = string.match(place, '^(b?[tp]?%d*)/(%d+%-%d+)$')
  return label and key.level .. label or key.ready, id or place
end

-- The same for a place or receipt that may be of an event in its log.
local function entry_at(receipt)
  if string.sub(receipt, 1, 2) == '@/' then
    return key.log, string.sub(receipt, 3)
  end
  return entry_in(receipt)
end

-- Whether a consumer still holds a delivery; of a queue that was removed, nobody does.
local function still_holds(group, consumer, receipt, count)
  local stream, id = entry_at(receipt)
  local found = redis.pcall('XPENDING', stream, group, id, id, 1)
  if found.err and string.sub(found.err, 1, 7) ~= 'NOGROUP' then
    error(found)
  end
  local pending = found[1]
  return pending and pending[2] == consumer and pending[4] == tonumber(count)
end

-- The epoch, as text. One that is not a number is replaced by one that no holder knows.
local function epoch_now()
  local epoch = redis.call('GET', key.epoch) or '0'
  if not string.find(epoch, '^%d+$') or #epoch > 15 then
    redis.log(redis.LOG_WARNING, 'headrace: ' .. key.epoch .. ' was not a number; it starts again')
    epoch = string.format('%d', now_ms())
    redis.call('SET', key.epoch, epoch)
  end
  return epoch
end

-- Leases were taken: a worker that settles with an older epoch must first check what it still holds. The first one
-- of a queue is no epoch of an earlier queue of its name, whose jobs may still run.
local function next_epoch()
  local epoch = tonumber(epoch_now())
  redis.call('SET', key.epoch, string.format('%d', epoch == 0 and now_ms() or epoch + 1))
end

-- What a job has done once, by name; an unreadable value counts as not done.
local function once_in(raw)
  local fine, read = pcall(cmsgpack.unpack, raw or '')
  local once = {}
  for name, value in pairs(fine and type(read) == 'table' and read or {}) do
    if type(name) == 'string' and type(value) == 'string' then
      once[name] = value
    end
  end
  return once
end

-- Whether a place is an entry of a stream, and not other bytes.
local function is_entry(place)
  return string.find(place, '^%d+%-%d+$') or string.find(place, '^b?[tp]?%d*/%d+%-%d+$')
end

-- The fields of a parked job, as in a stream entry. Bytes that are not ours count as an envelope: a
-- worker will refuse it.
local function unparked(job_id, body)
  local history, constraints, inputs, at = string.match(body, '^(%d+),?(%d*),?(%d*):()')
  if not at then
    return {id = job_id, history = '', constraints = '', inputs = '', envelope = body}
  end
  history = at + tonumber(history)
  constraints = history + (tonumber(constraints) or 0)
  inputs = constraints + (tonumber(inputs) or 0)
  return {
    id = job_id,
    history = string.sub(body, at, history - 1),
    constraints = string.sub(body, history, constraints - 1),
    inputs = string.sub(body, constraints, inputs - 1),
    envelope = string.sub(body, inputs),
  }
end

local function field(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then
      return fields[i + 1]
    end
  end
  return ''
end

-- Start and end of the job id in an envelope, its second field; nil if there is none.
local function key_place(envelope)
  local first, size, more = string.byte(envelope, 3, 5)
  if first == 196 and size then
    return 5, 4 + size
  elseif first == 197 and more then
    return 6, 5 + size * 256 + more
  end
end

-- The job id in an envelope; '' if there is none.
local function id_of(envelope)
  local first, last = key_place(envelope)
  return first and string.sub(envelope, first, last) or ''
end

-- MessagePack with the type for bytes, which the library does not use.
local function binary(bytes)
  local size = #bytes
  if size < 256 then
    return '\196' .. string.char(size) .. bytes
  end
  return '\197' .. string.char(math.floor(size / 256), size % 256) .. bytes
end

-- 16 bytes by which an ended job is found: `mark_of` in `store/history/block.py`.
local function mark_of(job_id)
  return #job_id == 16 and job_id or string.sub(redis.sha1hex(job_id), 1, 16)
end

-- Of each shelf of the history: its name, the first and the last chunk that count, how many of the first one's
-- jobs do not, and for how long jobs are kept.
local function shelves_of()
  local names = redis.pcall('SMEMBERS', key.shelves)
  local shelves = {}
  names = names.err and {} or names
  names[#names + 1] = ''
  for _, shelf in ipairs(names) do
    local meta = redis.pcall('HGET', key.history .. shelf, 'm')
    local first, last, count, most, keep_ms = string.match(
      type(meta) == 'string' and meta or '', '^(%d+) (%d+) (%d+) %d+ (%d+) (%d+)$')
    -- Not ours if there are more chunks than that: the server would be busy with them.
    if first and last - first < 200000 then
      first, last = tonumber(first), tonumber(last)
      local over = math.max(0, count - most)
      while over > 0 and first < last do
        local size = redis.call('HSTRLEN', key.history .. shelf, 'i' .. string.format('%d', first)) / 17
        if size > over then
          break
        end
        first, over = first + 1, over - size
      end
      shelves[#shelves + 1] = {shelf, first, last, over, tonumber(keep_ms)}
    end
  end
  return shelves
end

-- When the job at a place of a chunk ended; 0 if that cannot be read.
local function ended_at(shelf, chunk, place)
  local times = redis.call('HGET', key.history .. shelf, 't' .. chunk) or ''
  for ended, count in string.gmatch(times, '(%d+):(%d+) ') do
    place = place - count
    if place < 0 then
      return tonumber(ended)
    end
  end
  return 0
end

-- The places in a chunk's marks of jobs that are wanted: mark → {place, letter of the state}.
local function marked_in(marks, wanted, count)
  local found, sub = {}, string.sub
  if count < 5 then
    for mark in pairs(wanted) do
      local at = string.find(marks, mark, 1, true)
      while at do
        if (at - 1) % 17 == 0 then
          found[mark] = {(at - 1) / 17, sub(marks, at + 16, at + 16)}
        end
        at = string.find(marks, mark, at + 1, true)
      end
    end
    return found
  end
  for at = 1, #marks, 17 do
    local mark = sub(marks, at, at + 15)
    if wanted[mark] then
      found[mark] = {(at - 1) / 17, sub(marks, at + 16, at + 16)}
    end
  end
  return found
end

-- Where ended jobs are kept: id → {shelf, chunk, place, state, ended}. Of a job that ended twice, the last.
local function find_ended(job_ids)
  local found, shelves, states = {}, #job_ids > 0 and shelves_of() or {}, {d = 'done', c = 'cancelled'}
  local moment = #shelves > 0 and now_ms()
  for _, each in ipairs(shelves) do
    local shelf, first, last, hidden, keep_ms = unpack(each)
    local wanted, left = {}, 0
    for _, job_id in ipairs(job_ids) do
      wanted[mark_of(job_id)] = job_id
      left = left + 1
    end
    for chunk = last, first, -1 do
      local number = string.format('%d', chunk)
      local marks = left > 0 and redis.call('HGET', key.history .. shelf, 'i' .. number) or ''
      for mark, at in pairs(marked_in(marks, wanted, left)) do
        local job_id, ended = wanted[mark], ended_at(shelf, number, at[1])
        local is_kept = states[at[2]] and (chunk > first or at[1] >= hidden) and ended + keep_ms > moment
        local before = found[job_id]
        if is_kept and (not before or before[5] < ended) then
          found[job_id] = {shelf, number, at[1], states[at[2]], ended}
        end
        wanted[mark] = nil
        left = left - 1
      end
    end
  end
  return found
end

-- The result in the verdict of a done job: the bytes after `[done, `; '' for any other verdict.
local function value_of(verdict)
  if string.sub(verdict, 2, 6) ~= '\164done' or #verdict < 8 then
    return ''
  end
  local first = string.byte(verdict, 7)
  local size, at = struct.unpack(first == 196 and '>B' or first == 197 and '>I2' or '>I4', verdict, 8)
  return string.sub(verdict, at, at + size - 1)
end

local function state_of(verdict)
  return string.sub(verdict, 3, 2 + string.byte(verdict, 2) - 160)
end

local function array(count)
  return struct.pack('>BI4', 221, count)
end

-- The task in an envelope, its third field; '' if there is none.
local function task_of(envelope)
  local _, last = key_place(envelope)
  local size, long = string.byte(envelope, (last or #envelope) + 1, (last or #envelope) + 2)
  if size and size >= 160 and size <= 191 then
    return string.sub(envelope, last + 2, last + 1 + size - 160)
  elseif size == 217 and long then
    return string.sub(envelope, last + 3, last + 2 + long)
  end
  return ''
end

local function pending_in(stream, group)
  local pending = redis.pcall('XPENDING', stream, group)
  return pending.err and 0 or pending[1]
end

-- How many entries of a stream workers hold; what was handed back is waiting again.
local function leased_in(stream, group, returned)
  local pending = redis.pcall('XPENDING', stream, group)
  local leased = pending.err and 0 or pending[1]
  for _, consumer in ipairs(pending[4] or {}) do
    if consumer[1] == returned then
      leased = leased - tonumber(consumer[2])
    end
  end
  return leased
end

-- XINFO of one group of a stream; nil if there is none.
local function group_info(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, info in ipairs(groups.err and {} or groups) do
    if info[2] == group then
      return {last = info[8], lag = info[12]}
    end
  end
end

-- The id right after another, and right before it.
local function id_after(id)
  local ms, sequence = string.match(id, '^(%d+)-(%d+)$')
  if #sequence > 15 then
    -- The last id of a millisecond; Lua's numbers do not go that far.
    return string.format('%d', ms + 1) .. '-0'
  end
  return ms .. '-' .. string.format('%d', sequence + 1)
end

local function id_before(id)
  local ms, sequence = string.match(id, '^(%d+)-(%d+)$')
  if sequence ~= '0' and #sequence < 16 then
    return ms .. '-' .. string.format('%d', sequence - 1)
  elseif ms == '0' then
    return '0-0'
  end
  return string.format('%d', ms - 1) .. '-18446744073709551615'
end

local function precedes_id(id, other)
  local ms, sequence = string.match(id, '^(%d+)-(%d+)$')
  local other_ms, other_sequence = string.match(other, '^(%d+)-(%d+)$')
  if ms ~= other_ms then
    return tonumber(ms) < tonumber(other_ms)
  end
  return tonumber(sequence) < tonumber(other_sequence)
end

-- Whether a worker holds this event from the log; `positions` is the index of the log.
local function is_held(log, positions, group, event)
  local id = get_place(positions, event)
  return id and string.find(id, '^%d+%-%d+$') and #redis.call('XPENDING', log, group, id, id, 1) > 0
end

-- The number of entries between two ids, counted page by page up to about `most`.
local function count_range(stream, first, last, most)
  local count = 0
  while count < most do
    local page = redis.call('XRANGE', stream, first, last, 'COUNT', 1000)
    count = count + #page
    if #page < 1000 then
      break
    end
    first = '(' .. page[#page][1]
  end
  return count
end

-- The run id of the server: another after a restart, and on a replica that took over. Empty if the
-- server does not say.
local function server_life()
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.match(info, 'master_replid:(%w+)') or ''
end

-- Whether the server's own count of what a group was given is right. The count does not reach its disk
-- or its replicas, so it holds only for the run of the server in which it was last set.
local function is_counted(group)
  local life = server_life()
  return life ~= '' and redis.call('HGET', key.counted, group) == life
end

-- How many entries of a log a group has not been given, by its `group_info`; a lower bound if the server
-- does not know it and there are more than 10,000.
local function behind(stream, group, info)
  if not info or info.lag == 0 then
    return 0
  elseif info.lag and is_counted(group) then
    return info.lag
  end
  return count_range(stream, '(' .. info.last, '+', 10000)
end

-- The id after which a place in a log begins; nil if it is an event that the log does not hold. `value`
-- is the event or the time in ms; `positions` is the index of the log.
local function place_in(log, positions, kind, value)
  if kind == 'start' then
    return '0-0'
  elseif kind == 'time' then
    return id_before(value .. '-0')
  elseif kind == 'event' then
    local id = get_place(positions, value)
    if not id or not string.find(id, '^%d+%-%d+$') or #redis.call('XRANGE', log, id, id) == 0 then
      return nil
    end
    return id_before(id)
  end
  local newest = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if newest then
    return newest[1]
  end
  -- An empty log may have had events: new ones come after the last of them.
  local info = redis.pcall('XINFO', 'STREAM', log)
  return info.err and '0-0' or info[8]
end

-- How many entries were ever added to a log up to this one; nil if there are too many to count on both
-- sides of it.
local function number_of(log, id)
  local info = redis.pcall('XINFO', 'STREAM', log)
  local added, length, far = 0, 0, 20000
  for i = 1, info.err and 0 or #info, 2 do
    if info[i] == 'entries-added' then
      added = info[i + 1]
    elseif info[i] == 'length' then
      length = info[i + 1]
    end
  end
  local left = id == '0-0' and length or count_range(log, '(' .. id, '+', far)
  if id == '0-0' or left < far then
    return added - left
  end
  local before = count_range(log, '-', id, far)
  return before < far and added - length + before or nil
end

-- Let a group begin after this entry, with the server's count of how far behind it is.
local function set_place(command, log, group, id, ...)
  local number, arguments = number_of(log, id), {...}
  if number then
    arguments[#arguments + 1] = 'ENTRIESREAD'
    arguments[#arguments + 1] = number
  end
  return redis.call('XGROUP', command, log, group, id, unpack(arguments))
end

-- Once in each run of the server, set its count of how far behind a group is.
local function set_count(log, group)
  local info, life = group_info(log, group), server_life()
  if info and life ~= '' and redis.call('HGET', key.counted, group) ~= life then
    set_place('SETID', log, group, info.last)
    redis.call('HSET', key.counted, group, life)
  end
end

-- The first entry of the log that a group still needs: every group seen since `gone_before` has settled
-- all before it. The names of other groups are put into `gone`.
local function first_needed_of(log, gone_before, gone)
  local needed
  local groups = redis.pcall('XINFO', 'GROUPS', log)
  for _, info in ipairs(groups.err and {} or groups) do
    local seen = string.match(redis.call('HGET', key.groups, info[2]) or '', '(%d+)$')
    if seen and tonumber(seen) < gone_before then
      gone[#gone + 1] = info[2]
    else
      local oldest = redis.call('XPENDING', log, info[2], '-', '+', 1)[1]
      local first = oldest and oldest[1] or id_after(info[8])
      if not needed or precedes_id(first, needed) then
        needed = first
      end
    end
  end
  return needed
end

-- A group that was not given dropped entries goes on after them; else the server counts it as behind.
local function go_on_behind(log, id)
  local groups = redis.pcall('XINFO', 'GROUPS', log)
  for _, info in ipairs(groups.err and {} or groups) do
    if precedes_id(info[8], id) then
      set_place('SETID', log, info[2], id)
    end
  end
end

-- Remove the oldest events of a log, at most `most`, and only those before `limit` if it is given;
-- returns how many.
local function drop_events(log, most, limit)
  local dropped, last = 0, nil
  while dropped < most do
    local page = redis.call('XRANGE', log, '-', limit and '(' .. limit or '+', 'COUNT', math.min(500, most - dropped))
    if #page == 0 then
      break
    end
    local gone = {}
    for i, entry in ipairs(page) do
      gone[i] = id_of(field(entry[2], 'j'))
    end
    remove_places(key.jobs, gone)
    last = page[#page][1]
    redis.call('XTRIM', log, 'MINID', id_after(last))
    dropped = dropped + #page
  end
  if last then
    go_on_behind(log, last)
  end
  return dropped
end

-- The names of the streams of a queue; those of a key that is not ours count as none.
local function streams_in_use()
  local streams = {key.ready}
  local used = redis.pcall('ZCARD', key.levels)
  for _, level in ipairs(type(used) == 'number' and used > 0 and levels_in(key.levels) or {}) do
    streams[#streams + 1] = key.level .. level
  end
  return streams
end

-- The answer of a command that counts; a key of another type holds no jobs of ours.
local function counted_in(command, name)
  local found = redis.pcall(command, name)
  return type(found) == 'number' and found or 0
end

-- How many jobs that have not ended a queue with these streams holds.
local function jobs_live(streams)
  local live = counted_in('HLEN', key.parked)
  for _, stream in ipairs(streams) do
    live = live + counted_in('XLEN', stream)
  end
  return live
end

-- The same with dead ones.
local function jobs_held(streams)
  return math.max(jobs_live(streams) + counted_in('XLEN', key.dead), counted_in('ZCARD', key.scheduled))
end

-- Remove the buckets of the jobs in these streams, at most `most` of each, and of parked jobs.
local function drop_buckets(streams, most)
  local function drop(job_ids)
    for _, ids in ipairs(in_buckets(job_ids, 1)) do
      local bucket = key.jobs .. ids.name
      redis.call('UNLINK', bucket)
    end
  end
  for _, stream in ipairs(streams) do
    local from, seen, page = '-', 0, nil
    repeat
      page = redis.pcall('XRANGE', stream, from, '+', 'COUNT', 100)
      local job_ids = {}
      for i, entry in ipairs(page) do
        job_ids[i] = stream == key.dead and field(entry[2], 'k') or id_of(field(entry[2], 'j'))
        from = '(' .. entry[1]
      end
      drop(job_ids)
      seen = seen + #page
    until #page < 100 or seen >= most
  end
  local parked = redis.pcall('HKEYS', key.parked)
  drop(parked.err and {} or parked)
end

-- How many facts an entry of `events` holds.
local function facts_in(entry)
  local count = string.match(field(entry[2], 'n'), '^%d+$')
  return count and #count < 10 and count or '1'
end

-- The number of facts after `count` were added; counted again if it is not a number.
local function add_facts(count)
  local total = redis.pcall('INCRBY', key.facts, count)
  if type(total) == 'number' then
    return total
  end
  redis.log(redis.LOG_WARNING, 'headrace: ' .. key.facts .. ' was not a number; it is counted again')
  local from = '-'
  total = 0
  repeat
    local page = redis.call('XRANGE', key.events, from, '+', 'COUNT', 1000)
    for _, entry in ipairs(page) do
      total = total + facts_in(entry)
      from = '(' .. entry[1]
    end
  until #page < 1000
  redis.call('SET', key.facts, string.format('%d', total))
  return total
end

-- Add to a count; one that is not a number, or a minute that is not a hash, is reset.
local function count_in(minute, name, amount)
  local count = redis.pcall('HINCRBY', minute, name, amount)
  if type(count) ~= 'number' then
    if redis.call('TYPE', minute).ok ~= 'hash' then
      redis.call('DEL', minute)
    end
    redis.call('HSET', minute, name, amount)
  elseif count == 0 then
    redis.call('HDEL', minute, name)
  end
end

-- Keep `count` facts without the last ones of job ids in `lost`, one for each time an id is there. `facts` are
-- encoded: single ones, and blocks of many. About `most` are kept in all. `counts`, encoded, and `made` are added
-- to the counters of this minute, by name. Of a single fact, `name` may be given instead, its kind and task, and
-- the id of the job: the server keeps the name of a field once for many entries in a row.
local function record(most, count, facts, lost, counts, made, name, job_id)
  if most == 0 then
    return
  end
  if count > 0 then
    local id
    if name then
      id = redis.call('XADD', key.events, '*', name, job_id)
    elseif #lost > 0 then
      local names = {}
      for i, job_id in ipairs(lost) do
        names[i] = binary(job_id)
      end
      id = redis.call('XADD', key.events, '*', 'n', count, 'f', array(#facts) .. table.concat(facts), 'x', array(#names) .. table.concat(names))
    else
      id = redis.call('XADD', key.events, '*', 'n', count, 'f', array(#facts) .. table.concat(facts))
    end
    -- Not all at once if fewer are kept from now on: a step must be short.
    local total, left = add_facts(count), 1000
    while total > most and left > 0 do
      left = left - 1
      local oldest = redis.call('XRANGE', key.events, '-', '(' .. id, 'COUNT', 1)[1]
      if not oldest then
        break
      end
      redis.call('XDEL', key.events, oldest[1])
      total = redis.call('DECRBY', key.facts, facts_in(oldest))
    end
  end
  if counts ~= '' or next(made) then
    local minute = key.minute .. string.format('%d', math.floor(now_ms() / 60000))
    for _, amounts in ipairs({counts ~= '' and cmsgpack.unpack(counts) or {}, made}) do
      for name, amount in pairs(amounts) do
        count_in(minute, name, amount)
      end
    end
    if redis.call('PTTL', minute) < 0 then
      -- The first of this minute: what nobody adds to any more expires by itself.
      redis.call('EXPIRE', minute, 90000)
      redis.call('EXPIRE', key.events, EVENTS_SECONDS)
      redis.call('EXPIRE', key.facts, EVENTS_SECONDS)
    end
  end
end
