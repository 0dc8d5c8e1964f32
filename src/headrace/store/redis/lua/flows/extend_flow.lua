#!lua
-- Say that a running job adds jobs of another queue to its flow; atomic, so that the queue is known before they are.
-- KEYS: children flow_counts sessions
-- ARGV: queue job_id:bytes flow:str target:str
-- Returns list[bytes]: the records of the jobs that wait for it.

if ARGV[4] ~= ARGV[1] then
  redis.call('HSET', key.flow_counts .. ARGV[3], 'q' .. ARGV[4], '1')
end
return applied({redis.call('HGET', key.children, ARGV[2]) or ''})
