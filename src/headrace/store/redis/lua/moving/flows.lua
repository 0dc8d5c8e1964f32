-- Flows: `flow` + child has '@' all parents in order, '#' how many are missing, '+' the child's own
-- time, and the result of each parent that has ended.

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

local function inputs_of(flow)
  local parents = parents_in(redis.call('HGET', flow, '@') or '')
  local parts = {array(#parents)}
  for i = 1, #parents, 1000 do
    for _, value in ipairs(redis.call('HMGET', flow, unpack(parents, i, math.min(i + 999, #parents)))) do
      parts[#parts + 1] = value or NIL
    end
  end
  return table.concat(parts)
end

-- The job that was blocked by a flow; if nothing is left of it, its place is removed too.
local function unblocked(child)
  local job = unpark(child)
  if not job then
    places[child] = false
  end
  return job
end

local function go_on_from(job, when)
  if place_at(job, when) == 'sent' then
    record_fact('ready', job)
  end
end

-- How many parents are missing; nil if that is not a number.
local function one_less_missing(flow)
  local missing = redis.pcall('HINCRBY', flow, '#', -1)
  return type(missing) == 'number' and missing or nil
end

local function arrive(child, parent, state, value, anyway)
  local flow = key.flow .. child
  if place_of(child) ~= 'f' then
    return
  end
  local new = redis.pcall('HSETNX', flow, parent, value == '' and NIL or value)
  if new == 0 then
    return
  elseif state ~= 'done' and not anyway then
    redis.call('DEL', flow)
    local job = unblocked(child)
    if job and state == 'dead' then
      failed_by_parent(job)
    elseif job then
      cancelled(job, false)
    end
    return
  end
  local missing = new == 1 and one_less_missing(flow)
  if not missing then
    redis.call('DEL', flow)
    local job = unblocked(child)
    if job then
      fail(job, 'malformed', 'what it waits for cannot be read')
    end
  elseif missing == 0 then
    local job, when = unblocked(child), redis.call('HGET', flow, '+') or ''
    local inputs = inputs_of(flow)
    redis.call('DEL', flow)
    if job then
      job.inputs = inputs
      safely(job, go_on_from, job, when)
    end
  end
end

local has_messages = false
local function send_message(ended)
  redis.call('XADD', key.flow_messages, '*', 'q', ended[1], 'k', ended[2], 'p', ended[3], 's', ended[4], 'v', ended[5], 'a', ended[6] and '1' or '0')
  has_messages = true
end

-- One end may end or free thousands of others: a limited number now, the rest by the flow relay.
local function run_agenda()
  local at = 1
  while agenda[at] do
    local ended = agenda[at]
    if ended[1] ~= QUEUE or at > 500 then
      send_message(ended)
    else
      pcall(arrive, ended[2], ended[3], ended[4], ended[5], ended[6])
    end
    at = at + 1
  end
end
