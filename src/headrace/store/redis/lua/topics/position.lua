#!lua flags=no-writes
-- The entry id of a place in a log; atomic, so that the event is there when it is looked up.
-- KEYS: ready jobs
-- ARGV: kind:str value:Argument
-- Returns bytes: the id behind which it begins, '' if the event is not in the log.

return place_in(key.ready, key.jobs, ARGV[1], ARGV[2]) or ''
