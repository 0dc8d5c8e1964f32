#!lua
-- Say that a running job adds jobs of another queue to its flow; atomic, so that the queue is known before they are.
-- KEYS: children flow_jobs flow_counts sessions
-- ARGV: queue job_id:bytes flow:str target:str
-- Returns list[bytes]: the records of the jobs that wait for it.

-- A job that has lost its lease may be gone, and its flow with it.
if ARGV[4] ~= ARGV[1] and redis.call('SISMEMBER', key.flow_jobs .. ARGV[3], ARGV[2]) == 1 then
  redis.call('HSET', key.flow_counts .. ARGV[3], 'q' .. ARGV[4], '1')
end
return applied({redis.call('HGET', key.children, ARGV[2]) or ''})
