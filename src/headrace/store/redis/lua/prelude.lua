-- What several scripts need; stands at the head of each.

-- The server's time in ms.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- An error reply if a key is not of its type: found half way, it would leave a job nowhere.
local function wrong_type(kinds)
  for key, kind in pairs(kinds) do
    local found = redis.call('TYPE', key).ok
    if found ~= kind and found ~= 'none' then
      return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- The past and the envelope of a parked job.
local function unparked(body)
  local colon = string.find(body, ':', 1, true)
  local split = colon + tonumber(string.sub(body, 1, colon - 1))
  return string.sub(body, colon + 1, split), string.sub(body, split + 1)
end

-- The earliest due time, as text; nil if nothing is scheduled.
local function first_due(scheduled)
  return redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
end
