#!lua
-- Record the starts of runs that go on; atomic, so that none is recorded after its end, or by a worker that lost the job.
-- KEYS: ready level log events facts minute sessions
-- ARGV: events:int group consumer:str, then *starts, for each: receipt count fact
-- Returns int: how many were recorded.

local group, consumer = ARGV[2], ARGV[3]
local wrong = wrong_type({[key.events] = 'stream'})
if wrong then
  return wrong
end

local facts = {}
for i = 4, #ARGV, 3 do
  if still_holds(group, consumer, ARGV[i], ARGV[i + 1]) then
    facts[#facts + 1] = ARGV[i + 2]
  end
end
record(tonumber(ARGV[1]), #facts, facts, {}, '', {})
return applied(#facts)
