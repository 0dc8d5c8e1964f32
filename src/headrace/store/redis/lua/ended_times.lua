#!lua flags=no-writes
-- When jobs ended, for the last time; atomic, so that none is taken for ended that is live again.
-- KEYS: jobs history shelves
-- ARGV: *job_ids:bytes
-- Returns list[int]: for each job the time in ms; 0 if it is live, or not in the history.

local live, times = {}, {}
get_places(key.jobs, ARGV, live, false)
local ended = find_ended(ARGV)
for i, job_id in ipairs(ARGV) do
  times[i] = not live[job_id] and ended[job_id] and ended[job_id][5] or 0
end
return times
