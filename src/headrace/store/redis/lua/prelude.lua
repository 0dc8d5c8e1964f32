-- What several scripts need; stands at the head of each. `key` has the names of its KEYS.

-- The server's time in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- An error reply if a key is not of its type: found half way, it would leave a job nowhere.
local function wrong_type(kinds)
  for name, kind in pairs(kinds) do
    local found = redis.call('TYPE', name).ok
    if found ~= kind and found ~= 'none' then
      return redis.error_reply('WRONGTYPE ' .. name .. ' is a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- What a hash of a parked job holds, as a stream entry would.
local function unparked(job_key, body)
  local past, ties, inputs, at = string.match(body, '^(%d+),?(%d*),?(%d*):()')
  past = at + tonumber(past)
  ties = past + (tonumber(ties) or 0)
  inputs = ties + (tonumber(inputs) or 0)
  return {
    key = job_key,
    past = string.sub(body, at, past - 1),
    ties = string.sub(body, past, ties - 1),
    inputs = string.sub(body, ties, inputs - 1),
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

-- The job key in an envelope, which is its second field; '' if that is none.
local function key_of(envelope)
  local first = string.byte(envelope, 3)
  if first == 196 then
    return string.sub(envelope, 5, 4 + string.byte(envelope, 4))
  elseif first == 197 then
    return string.sub(envelope, 6, 5 + string.byte(envelope, 4) * 256 + string.byte(envelope, 5))
  end
  return ''
end

-- MessagePack that says of bytes that they are bytes, which the library does not.
local function binary(bytes)
  local size = #bytes
  if size < 256 then
    return '\196' .. string.char(size) .. bytes
  end
  return '\197' .. string.char(math.floor(size / 256), size % 256) .. bytes
end

-- The result in the verdict on a job that is done, '' for any other: the bytes after `[done, `.
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

-- The task in an envelope, its third field; '' if that is none of ours.
local function task_of(envelope)
  local first, at = string.byte(envelope, 3), nil
  if first == 196 then
    at = 5 + string.byte(envelope, 4)
  elseif first == 197 then
    at = 6 + string.byte(envelope, 4) * 256 + string.byte(envelope, 5)
  end
  local size = at and string.byte(envelope, at) or 0
  if size >= 160 and size <= 191 then
    return string.sub(envelope, at + 1, at + size - 160)
  elseif size == 217 then
    return string.sub(envelope, at + 2, at + 1 + string.byte(envelope, at + 1))
  end
  return ''
end

-- Keep facts: `count` of them, encoded one after the other, but for as many of each job key as it
-- is in `lost`; no more than about `most` are kept. `counts`, encoded, and `made` are what to add
-- to this minute by name.
local function record(most, count, facts, lost, counts, made)
  if most == 0 then
    return
  end
  if count > 0 then
    local id
    if #lost > 0 then
      local names = {}
      for i, job_key in ipairs(lost) do
        names[i] = binary(job_key)
      end
      id = redis.call('XADD', key.events, '*', 'n', count, 'f', array(count) .. facts, 'x', array(#names) .. table.concat(names))
    else
      id = redis.call('XADD', key.events, '*', 'n', count, 'f', array(count) .. facts)
    end
    local total = redis.call('INCRBY', key.facts, count)
    while total > most do
      local oldest = redis.call('XRANGE', key.events, '-', '(' .. id, 'COUNT', 1)[1]
      if not oldest then
        break
      end
      redis.call('XDEL', key.events, oldest[1])
      total = redis.call('DECRBY', key.facts, oldest[2][2])
    end
  end
  if counts ~= '' or next(made) then
    local minute = key.minute .. string.format('%d', math.floor(now_ms() / 60000))
    for _, amounts in ipairs({counts ~= '' and cmsgpack.unpack(counts) or {}, made}) do
      for name, amount in pairs(amounts) do
        if redis.call('HINCRBY', minute, name, amount) == 0 then
          redis.call('HDEL', minute, name)
        end
      end
    end
    redis.call('EXPIRE', minute, 90000)
  end
end
