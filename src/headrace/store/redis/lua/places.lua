#!lua flags=no-writes
-- Where jobs are; atomic, so that all answers are of one moment.
-- KEYS: jobs
-- ARGV: *job_ids:bytes
-- Returns list[bytes | None]: the place of each in the index.

local found, places = {}, {}
get_places(key.jobs, ARGV, found, false)
for i, job_id in ipairs(ARGV) do
  places[i] = found[job_id]
end
return places
