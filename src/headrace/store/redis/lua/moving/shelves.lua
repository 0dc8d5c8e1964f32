-- The history: what is kept of jobs that are done or cancelled, as `store/history/chunk.py` has it.

local keep_ended, keep_cancelled
do
  local FULL, MARK, DROPPED_TOGETHER = 8192, 17, 300

  local function digits(number)
    return string.format('%d', number)
  end

  local function bytes(value)
    return '\198' .. struct.pack('>I4', #value) .. value
  end

  -- Chunks that are over, by number or by time: how many jobs are left, and the first chunk that is.
  local function drop_old(name, first, last, count, most, keep_ms)
    local gone = {}
    while first < last and #gone < DROPPED_TOGETHER do
      local size = redis.call('HSTRLEN', name, 'i' .. digits(first)) / MARK
      local following = count - size < most and redis.call('HGET', name, 't' .. digits(first + 1))
      if following and tonumber(string.match(following, '^%d+')) + keep_ms > now() then
        break
      end
      for _, part in ipairs({'i', 'd', 't'}) do
        gone[#gone + 1] = part .. digits(first)
      end
      first, count = first + 1, count - size
    end
    if #gone > 0 then
      redis.call('HDEL', name, unpack(gone))
    end
    return first, count
  end

  local function add(shelf, most, keep_ms, marks, progress, block)
    local name, added = key.history .. shelf, #marks / MARK
    local meta = redis.call('HGET', name, 'm') or '1 0 0 0'
    local first, last, count, ended = string.match(meta, '^(%d+) (%d+) (%d+) (%d+)')
    first, last, count = tonumber(first), tonumber(last), tonumber(count) + added
    assert(last - first < 200000, 'not a shelf of ours')
    -- Times never go back, though the clock may.
    ended = math.max(now(), tonumber(ended))
    -- A block is long, and each copy of it is work for the garbage collector of Lua: make one.
    local head = '\147' .. cmsgpack.pack(ended) .. progress
    local frame = struct.pack('>I4', #head + #block) .. head .. block
    local times = digits(ended) .. ':' .. digits(added) .. ' '
    if last < first or redis.call('HSTRLEN', name, 'd' .. digits(last)) >= FULL then
      last = last + 1
    else
      local tail = redis.call('HMGET', name, 'i' .. digits(last), 'd' .. digits(last), 't' .. digits(last))
      marks, frame, times = tail[1] .. marks, tail[2] .. frame, tail[3] .. times
    end
    redis.call('HSET', name, 'i' .. digits(last), marks, 'd' .. digits(last), frame, 't' .. digits(last), times)
    first, count = drop_old(name, first, last, count, most, keep_ms)
    redis.call('HSET', name, 'm', table.concat({first, last, count, digits(ended), most, digits(keep_ms)}, ' '))
    redis.call('PEXPIRE', name, digits(keep_ms))
    if shelf ~= '' then
      redis.call('SADD', key.shelves, shelf)
      redis.call('PEXPIRE', key.shelves, digits(keep_ms), 'NX')
      redis.call('PEXPIRE', key.shelves, digits(keep_ms), 'GT')
    end
  end

  -- A shelf that cannot be read begins again: no job may be lost over what is kept of others.
  local function add_safely(shelf, ...)
    if not pcall(add, shelf, ...) then
      redis.log(redis.LOG_WARNING, 'headrace: ' .. key.history .. shelf .. ' could not be read; it begins again')
      redis.call('DEL', key.history .. shelf)
      if shelf ~= '' and redis.call('TYPE', key.shelves).ok ~= 'set' then
        redis.call('DEL', key.shelves)
      end
      pcall(add, shelf, ...)
    end
  end

  -- The last progress of jobs, by place, encoded. `reported` has it by mark.
  local function progress_in(marks, reported)
    local found, count = {}, 0
    if next(reported) then
      for at = 0, #marks / MARK - 1 do
        local progress = reported[string.sub(marks, at * MARK + 1, at * MARK + 16)]
        if progress then
          count = count + 1
          found[count] = cmsgpack.pack(at) .. bytes(progress)
        end
      end
    end
    return '\223' .. struct.pack('>I4', count) .. table.concat(found)
  end

  -- What these jobs reported, by mark.
  local function reported_by(job_ids)
    local reported = {}
    if #job_ids > 0 and any_special() and redis.call('EXISTS', key.progress) == 1 then
      local values = redis.pcall('HMGET', key.progress, unpack(job_ids))
      for i, job_id in ipairs(job_ids) do
        reported[mark_of(job_id)] = values[i] or nil
      end
    end
    return reported
  end

  -- Keep jobs that are done; to be called while their progress is still there. `blocks` has for each shelf its
  -- name, bounds, marks and block.
  keep_ended = function(blocks, ...)
    local reported = {}
    for _, job_ids in ipairs({...}) do
      for mark, progress in pairs(reported_by(job_ids)) do
        reported[mark] = progress
      end
    end
    for _, each in ipairs(blocks) do
      local shelf, most, keep_ms, marks, block = unpack(each)
      add_safely(shelf, tonumber(most), tonumber(keep_ms), marks, progress_in(marks, reported), block)
    end
  end

  -- Keep a cancelled job, by the rules that came with the request: see `HistoryRules.encoded`.
  keep_cancelled = function(job, worker, verdict)
    if RULES == '' or MEMBERS or IS_LOG then
      return
    end
    local rules, task = cmsgpack.unpack(RULES), task_of(job.envelope)
    local own = rules[2][task]
    local most, keep_ms = unpack(own or rules[1])
    if most == 0 then
      return
    end
    local envelope = #job.envelope <= 16384 and job.envelope or ''
    local facts = '\152' .. cmsgpack.pack(#job.id) .. bytes(job.id) .. cmsgpack.pack('cancelled')
      .. cmsgpack.pack(task) .. '\0\0\0\160'
    local inputs = #job.inputs <= 16384 and job.inputs or ''
    local more = '\129\0\148' .. bytes(job.history) .. bytes(job.constraints) .. '\0' .. bytes(inputs)
    local block = '\151' .. facts .. cmsgpack.pack(worker) .. '\0' .. cmsgpack.pack(#envelope) .. bytes(envelope)
      .. bytes(verdict) .. more
    local marks = mark_of(job.id) .. 'c'
    add_safely(own and task or '', most, keep_ms, marks, progress_in(marks, reported_by({job.id})), block)
  end
end
