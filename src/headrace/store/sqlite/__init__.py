"""The store that needs no server: one SQLite file, or a database in memory.

`store`, `views` and `consumer` are the contract's verbs. What most jobs need is in `placing`,
`claiming`, `settling`, `scheduling`, `browsing` and `surveying`, and reads and writes jobs many at
a time; what some need besides is found by a flag in their row (`entries`) and goes through
`constrained`, `way` (into `lanes`, through `limits` and their `accounts`), `uniques`, `flows`,
`pausing`, `returning` and `endings`. Topics are in `topics` (the verbs), `logbook` (a log),
`publishing`, `groups`, `pumping` (out of the log into a group's queue), `untaken` (what is still in
the log) and `stopping` (keys that failed). `step` and `writing` hold one change together with all
that follows from it; `facts`, `reporting` and `noting` keep what is told; `sweeping` forgets.
`database` and `thread` run it, many callers to one commit; `file` sees to it that the file is the
one that the path names; `signals` tells those who wait; `tables`, `schema` and `failures` know what
a file must look like and what SQLite's errors mean.
"""
