#!lua flags=no-writes
-- Where a place in a log is; atomic, so that the event is there when it is looked up.
-- KEYS: ready jobs
-- ARGV: kind:str value:Argument
-- Returns bytes: the id behind which it begins, '' if the event is not in the log.

return place_in(key.ready, key.jobs, ARGV[1], ARGV[2]) or ''
