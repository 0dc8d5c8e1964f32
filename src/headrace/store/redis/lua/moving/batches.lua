-- Batches that gather: jobs of one name wait in the line of a gate, and go together. Their scores are the times at
-- which they came, in microseconds, each later than the one before.

-- In ends.lua: the end of a job that cannot be moved.
local die_on_the_way

-- gather: block a job with the others of its batch; `at_once` if they have waited enough. open_batch: let a batch go
-- whose time has come. release_batches: do the same for all to which jobs came; both return how many jobs moved.
local gather, open_batch, release_batches
do
  -- Batches to which jobs came, in order and by name: what they wait for, and whether they go at once.
  local grown, names = {}, {}

  gather = function(job, at_once)
    local gathering = constraints_of(job).gathering
    local name, line = gathering[1], key.line .. gathering[1]
    local last = tonumber(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] or 0)
    redis.call('ZADD', line, string.format('%d', math.max(now() * 1000, last + 1)), job.id)
    park(job, 'g' .. name)
    if not grown[name] then
      names[#names + 1] = name
    end
    grown[name] = {gathering, at_once or grown[name] and grown[name][2]}
  end

  -- The clock was set back: how long ago they came is unknown. They count as having come now.
  local function come_now(line)
    for i, job_id in ipairs(redis.call('ZRANGE', line, 0, -1)) do
      redis.call('ZADD', line, string.format('%d', now() * 1000 + i - 1), job_id)
    end
  end

  -- In how many ms a batch goes if no more jobs come.
  local function time_left(gathering, line)
    local last = tonumber(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]) / 1000
    if last > now() + 1000 then
      come_now(line)
      last = now()
    end
    local opens = tonumber(redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2]) / 1000 + gathering[3]
    if (gathering[4] or 0) > 0 then
      opens = math.min(opens, last + gathering[4])
    end
    return math.max(0, math.ceil(opens - now()))
  end

  local function put_in_batch(job, batch, priority)
    job.batch, job.batch_priority = batch, priority > 0 and priority or nil
    put_in_stream(job)
    record_fact('ready', job)
  end

  -- Take the first jobs out of the line. Only the place of some may be left.
  local function take_first(name, count)
    local job_ids, jobs, unread = redis.call('ZRANGE', key.line .. name, 0, count - 1), {}, {}
    for _, job_id in ipairs(job_ids) do
      unread[#unread + 1] = bodies[job_id] == nil and job_id or nil
    end
    read_ahead(bodies, key.parked, unread)
    redis.call('ZREM', key.line .. name, unpack(job_ids))
    for _, job_id in ipairs(job_ids) do
      local job = unpark(job_id)
      if job then
        jobs[#jobs + 1] = job
      elseif place_of(job_id) == 'g' .. name then
        places[job_id] = false
      end
    end
    return jobs
  end

  -- Each entry has the size and the name of its batch. They follow each other: one worker reads them together.
  local function release_first(name, count)
    local jobs, priority = take_first(name, count), 0
    for _, job in ipairs(jobs) do
      priority = math.max(priority, constraints_of(job).priority or 0)
    end
    local batch = jobs[1] and string.format('%d %d ', #jobs, now()) .. jobs[1].id
    for _, job in ipairs(jobs) do
      local fine, failure = pcall(put_in_batch, job, batch, priority)
      if not fine then
        die_on_the_way(job, failure)
      end
    end
    -- Batches are not waited for in their streams.
    control_changed = true
  end

  local function look(name, gathering, at_once)
    local line, moved = key.line .. name, 0
    local count, wait = redis.call('ZCARD', line), nil
    while count > 0 do
      wait = at_once and 0 or time_left(gathering, line)
      if count < gathering[2] and wait > 0 then
        break
      end
      local size = math.min(count, gathering[2])
      release_first(name, size)
      count, moved = count - size, moved + size
    end
    local opens = tonumber(redis.call('ZSCORE', key.gates, name) or nil)
    if count == 0 then
      if opens then
        arm(name, nil)
      end
    elseif not opens or opens > now() + wait or opens <= now() then
      -- One that is too early is left: with each job that comes, the time moves on.
      arm(name, wait)
    end
    return moved
  end

  open_batch = function(name)
    local head = redis.call('ZRANGE', key.line .. name, 0, 0)[1]
    local body = head and body_of(head)
    local gathering = body and constraints_of(unparked(head, body)).gathering
    -- Nobody knows what one waits for that is not ours, or has only its place left.
    return look(name, gathering or {name, 1, 0}, false)
  end

  release_batches = function()
    local moved, looks, in_order = 0, grown, names
    grown, names = {}, {}
    for _, name in ipairs(in_order) do
      local fine, count = pcall(look, name, unpack(looks[name]))
      moved = moved + (fine and count or 0)
    end
    return moved
  end
end
