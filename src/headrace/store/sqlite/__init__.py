"""The store that needs no server: one SQLite file, or a database in memory.

`store` and `consumer` are the contract's verbs, with `inspection/reads` and `topics/topic_store`.
`connection/` runs them in one thread, many callers to one commit. Each write is a `change`, and
`writer` carries out what follows from it.

Most jobs take the short way: `jobs/insert`, `jobs/claims`, `jobs/settlement`, many rows at a time.
A flag in the row (`entries`) says that there is more of a job; it goes through `jobs/constrained`,
`gates/`, `jobs/requeue` and `jobs/completion`.
"""
