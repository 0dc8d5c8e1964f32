#!lua flags=allow-oom
-- Delete what is kept of ended jobs; atomic, so that a chunk is replaced only by what was made of it as it is.
-- KEYS: history result journal jobs sessions
-- ARGV: shelf:bytes chunk:bytes digest:bytes marks:bytes data:bytes, then *job_ids:bytes
-- Returns list[int]: 1 if the chunk was replaced, or none was named, 0 if it is another by now; then for each job 1 if it had a result.

local name, chunk = key.history .. ARGV[1], ARGV[2]
local answer = {1}
if chunk ~= '' then
  local before = redis.call('HMGET', name, 'd' .. chunk, 'i' .. chunk, 'm')
  if not before[1] or redis.sha1hex(before[1]) ~= ARGV[3] then
    return {0}
  end
  redis.call('HSET', name, 'd' .. chunk, ARGV[5], 'i' .. chunk, ARGV[4])
  if ARGV[5] == '' then
    -- Nothing in it could be read, so its jobs do not count any more.
    local first, last, count, rest = string.match(before[3], '^(%d+) (%d+) (%d+) (.*)$')
    count = math.max(0, count - #before[2] / 17)
    redis.call('HSET', name, 't' .. chunk, '', 'm', table.concat({first, last, string.format('%d', count), rest}, ' '))
  end
end
for i = 6, #ARGV do
  local job_id = ARGV[i]
  local removed = 0
  if not get_place(key.jobs, job_id) then
    removed = redis.call('DEL', key.result .. job_id)
    redis.call('DEL', key.journal .. job_id)
  end
  answer[#answer + 1] = removed
end
return applied(answer)
