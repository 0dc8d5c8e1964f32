"""The store that needs no server: one SQLite file, or a database in memory.

`store`, `views` and `consumer` are the contract's verbs. What most jobs need is in `insert`,
`claims`, `settlement`, `due_times`, `listing` and `survey`, and reads and writes jobs many at
a time; what some need besides is found by a flag in their row (`entries`) and goes through
`constrained`, `routing` (into `lanes`, through `limits`), `uniques`, `flows`,
`pauses`, `requeue` and `completion`. Topics are in `topics` (the verbs), `topic_log` (a log),
`publication`, `groups`, `draw` (out of the log into a group's queue), `backlog` (what is still in
the log) and `stopped_keys` (keys that failed). `change` and `writer` hold one change together with
all that follows from it; `facts`, `progress_log` and `kv` keep what is reported; `pruning` deletes.
`database` and `thread` run it, many callers to one commit; `file` keeps the connection on the file
that the path names; `signals` wakes callers that wait; `tables`, `schema` and `failures` know what
a file must look like and what SQLite's errors mean.
"""
