#!lua
-- Send dead jobs again; atomic and gated by the deletion, so that asking twice replays once.
-- KEYS: *
-- ARGV: events:int queue by:str, then *jobs, for each: job_id envelope
-- Returns list[int]: for each job 1 if it was dead and was replayed, 0 otherwise.

local wrong = wrong_way() or wrong_special()
if wrong then
  return wrong
end

local function send(job)
  take_name_again(job)
  redis.call('DEL', key.result .. job.id)
  notify_children(job.id, 'waiting', '')
  place(job, freed_by(job) == 'blocked')
  record_fact('replayed', job)
end

local replayed = {}
for i = 4, #ARGV, 2 do
  local job_id = ARGV[i]
  local place_now = place_of(job_id)
  local id = place_now and string.match(place_now, '^d(%d+%-%d+)$')
  local entry = id and redis.call('XRANGE', key.dead, id, id)[1]
  local done = 0
  -- One that waits for a dead job goes on when that one is replayed.
  local waits = redis.call('EXISTS', key.flow .. job_id) == 1
  if entry and not waits and redis.call('XDEL', key.dead, id) == 1 then
    local job = job_of(job_id, entry[2])
    -- As `replayed_history` in `core/job/history.py`; one that is too long is dropped.
    local before = #job.history <= 1048576 and job.history or ''
    job.history = '\150\144\0\0\198' .. struct.pack('>I4', #before) .. before .. cmsgpack.pack(now()) .. cmsgpack.pack(ARGV[3])
    if ARGV[i + 1] ~= '' then
      job.envelope = ARGV[i + 1]
    end
    safely(job, send, job)
    done = 1
  end
  replayed[#replayed + 1] = done
end
finish(0, '', {}, '')
return applied(replayed)
