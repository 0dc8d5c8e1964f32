"""The store that needs no server: one SQLite file, or a database in memory.

`store` and `consumer` are the contract's verbs; `placing`, `claiming`, `settling` and `sweeping`
hold their SQL; `database` and `thread` run it, many callers to one commit; `signals` tells those
who wait; `schema` and `failures` know what a file must look like and what SQLite's errors mean.
"""
