#!lua
-- Record with blocked jobs that jobs they wait for have ended; atomic, so that the last one sets a job free once.
-- KEYS: *
-- ARGV: events:int queue, then *arrivals, for each: child parent state value anyway replays
-- Returns list[Any]: the jobs that this made dead; an error if it does not know a state, and then nothing is done.

local STATES = {done = true, dead = true, cancelled = true, waiting = true}
for i = 3, #ARGV, 6 do
  if not STATES[ARGV[i + 2]] then
    return redis.error_reply('UNKNOWNSTATE ' .. ARGV[i + 2] .. ' is not known to arrive.lua')
  end
  agenda[#agenda + 1] = {QUEUE, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4] == '1', tonumber(ARGV[i + 5])}
end
finish(0, '', {}, '')
return applied(deaths)
