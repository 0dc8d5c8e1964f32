#!lua
-- Note with a job that something was done; atomic, so that two notes of one job do not overwrite each other.
-- KEYS: jobs marks
-- ARGV: job name value
-- Returns 1 if the job is alive.

local place = redis.call('HGET', key.jobs, ARGV[1])
if not place or string.sub(place, 1, 1) == 'd' then
  return 0
end
local marks = redis.call('HGET', key.marks, ARGV[1])
local noted = marks and cmsgpack.unpack(marks) or {}
noted[ARGV[2]] = ARGV[3]
redis.call('HSET', key.marks, ARGV[1], cmsgpack.pack(noted))
return 1
