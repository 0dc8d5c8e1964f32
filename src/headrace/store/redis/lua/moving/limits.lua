-- Limits. A job that passed its gates and has not begun is counted as if it had.

-- In how many ms one more may pass: 0 for now, nil if that depends on another job.
local wait_for
do
  -- Starts in the future were counted before the clock was set back. How long ago is unknown. Counted as of
  -- now, the limit holds, and is closed for at most one window.
  local function starts_after_setting(limit)
    local starts, newest = key.starts .. limit[1], string.format('%d', now())
    for i, at in ipairs(redis.call('LRANGE', starts, 0, -1)) do
      if tonumber(at) > now() then
        redis.call('LSET', starts, i - 1, newest)
      end
    end
    redis.call('PEXPIRE', starts, limit[3] + 1000)
  end

  local function starts_within(limit)
    local starts = key.starts .. limit[1]
    if tonumber(redis.call('LINDEX', starts, -1) or 0) > now() then
      starts_after_setting(limit)
    end
    local oldest = redis.call('LINDEX', starts, 0)
    while oldest and (tonumber(oldest) or 0) + limit[3] < now() do
      redis.call('LPOP', starts)
      oldest = redis.call('LINDEX', starts, 0)
    end
    return redis.call('LLEN', starts), oldest
  end

  wait_for = function(limit)
    local started, oldest = starts_within(limit)
    if started + redis.call('SCARD', key.passed .. limit[1]) >= limit[2] then
      return oldest and tonumber(oldest) + limit[3] - now() + 1
    end
    local burst = limit[4] or 0
    if burst > 0 then
      local next_at, step = tonumber(redis.call('GET', key.pace .. limit[1])) or 0, limit[3] / limit[2]
      -- At most a full burst away, unless the clock was set back.
      return math.max(0, math.ceil(math.min(next_at - now(), burst * step) - (burst - 1) * step))
    end
    return 0
  end
end

-- Take one step of the pace that follows a burst; with -1, give one back.
local function keep_pace(limit, steps)
  if (limit[4] or 0) > 0 then
    local pace = key.pace .. limit[1]
    local step = limit[3] / limit[2]
    local from = math.max(tonumber(redis.call('GET', pace)) or 0, steps > 0 and now() or 0)
    local next_at = string.format('%.3f', math.min(from, now() + limit[4] * step) + steps * step)
    redis.call('SET', pace, next_at, 'PX', limit[3] + 1000)
  end
end

local function pass(limit, job_id)
  if redis.call('SADD', key.passed .. limit[1], job_id) == 1 then
    keep_pace(limit, 1)
  end
end

local function count_start(limit)
  local starts = key.starts .. limit[1]
  redis.call('RPUSH', starts, string.format('%d', now()))
  redis.call('PEXPIRE', starts, limit[3] + 1000)
end

-- The task whose jobs wait at this gate while it is paused; nil for the gate of a limit.
local function paused_at(name)
  if string.sub(name, 1, #TASK_GATE) == TASK_GATE then
    return string.sub(name, #TASK_GATE + 1)
  end
end

-- When gate `name` may let the next one pass.
local function arm(name, wait)
  watch_due()
  if wait then
    redis.call('ZADD', key.gates, string.format('%d', now() + wait), name)
  else
    redis.call('ZREM', key.gates, name)
  end
end

local wait_at
do
  local fronts = {}
  -- Jobs that are put in front together keep their order.
  local function front_of(name, first)
    fronts[name] = (fronts[name] or first - 1000000) + 1
    return fronts[name]
  end

  wait_at = function(name, job, wait, in_front)
    local line = key.line .. name
    local edge = in_front and 0 or -1
    local score = tonumber(redis.call('ZRANGE', line, edge, edge, 'WITHSCORES')[2] or 0)
    redis.call('ZADD', line, in_front and front_of(name, score) or score + 1, job.id)
    park(job, 'g' .. name)
    if wait and not redis.call('ZSCORE', key.gates, name) then
      arm(name, wait)
    end
  end
end

-- Let the job pass all of these limits, or block it at the first closed one; `opened` is the gate that just
-- let it through.
local function pass_gates(job, limits, opened)
  if not limits then
    return true
  end
  for _, limit in ipairs(limits) do
    local others = limit[1] ~= opened and redis.call('EXISTS', key.line .. limit[1]) == 1
    local wait = wait_for(limit)
    if others or wait ~= 0 then
      wait_at(limit[1], job, wait)
      return false
    end
  end
  for _, limit in ipairs(limits) do
    pass(limit, job.id)
  end
  return true
end

-- Give back what the job has not used: the next blocked job may pass at once.
local function give_back(limits, job_id)
  for _, limit in ipairs(limits) do
    if redis.call('SREM', key.passed .. limit[1], job_id) == 1 then
      keep_pace(limit, -1)
      if redis.call('EXISTS', key.line .. limit[1]) == 1 then
        arm(limit[1], 0)
      end
    end
  end
end
