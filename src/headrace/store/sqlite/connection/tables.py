"""What a Headrace file looks like: its tables, version by version."""

from __future__ import annotations

# A row id is given to a job anew each time it takes a new place, and none is given twice, so that
# (id, count) names one delivery for ever. `time_ms` is what the state makes of it: since when a job
# waits, when a scheduled one is due, until when a running one is leased, when a dead one died.
_FIRST = (
    "CREATE TABLE queues (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL,"
    " UNIQUE (namespace, name))",
    # When abandoned jobs were last looked for; also in queues that nothing was sent to yet.
    "CREATE TABLE reclaims (namespace TEXT NOT NULL, queue TEXT NOT NULL,"
    " looked_ms INTEGER NOT NULL, hold_until_ms INTEGER NOT NULL,"
    " PRIMARY KEY (namespace, queue)) WITHOUT ROWID",
    "CREATE TABLE numbers (last INTEGER NOT NULL)",
    "INSERT INTO numbers VALUES (0)",
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " state TEXT NOT NULL, position INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', history BLOB NOT NULL DEFAULT x'', envelope BLOB NOT NULL)",
    "CREATE UNIQUE INDEX jobs_by_id ON jobs (queue, job_id)",
    "CREATE INDEX jobs_waiting ON jobs (queue, position) WHERE state = 'waiting'",
    "CREATE INDEX jobs_scheduled ON jobs (queue, time_ms) WHERE state = 'scheduled'",
    "CREATE INDEX jobs_running ON jobs (queue, time_ms) WHERE state = 'running'",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms) WHERE state = 'dead'",
    "CREATE TABLE results (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " expires_ms INTEGER NOT NULL, verdict BLOB NOT NULL, UNIQUE (queue, job_id))",
    "CREATE INDEX results_by_expiry ON results (expires_ms)",
)
# Bodies stand last in a row, so that what decides is read without them. `lane` is the lane that the
# job has a place in, `gate` the line that a blocked one stands in, `flags` what else there is of it
# (see `entries`).
_SECOND = (
    "DROP INDEX jobs_by_id",
    "DROP INDEX jobs_waiting",
    "DROP INDEX jobs_scheduled",
    "DROP INDEX jobs_running",
    "DROP INDEX jobs_dead",
    "ALTER TABLE jobs RENAME TO first_jobs",
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " state TEXT NOT NULL, position INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL DEFAULT 0,"
    " flags INTEGER NOT NULL DEFAULT 0, lane TEXT NOT NULL DEFAULT '',"
    " gate TEXT NOT NULL DEFAULT '', constraints BLOB NOT NULL DEFAULT x'',"
    " history BLOB NOT NULL DEFAULT x'', inputs BLOB NOT NULL DEFAULT x'', envelope BLOB NOT NULL)",
    "INSERT INTO jobs (id, queue, job_id, state, position, time_ms, count, owner, reason, flags,"
    " history, envelope) SELECT id, queue, job_id, state, position, time_ms, count, owner, reason,"
    " CASE history WHEN x'' THEN 0 ELSE 64 END, history, envelope FROM first_jobs",
    "DROP TABLE first_jobs",
    "CREATE UNIQUE INDEX jobs_by_id ON jobs (queue, job_id)",
    "CREATE INDEX jobs_waiting ON jobs (queue, priority DESC, position) WHERE state = 'waiting'",
    "CREATE INDEX jobs_scheduled ON jobs (queue, time_ms) WHERE state = 'scheduled'",
    "CREATE INDEX jobs_running ON jobs (queue, time_ms) WHERE state = 'running'",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms) WHERE state = 'dead'",
    "CREATE INDEX jobs_blocked ON jobs (queue) WHERE state = 'blocked'",
    "CREATE INDEX jobs_in_line ON jobs (queue, gate, position) WHERE gate != ''",
    "CREATE INDEX jobs_in_lane ON jobs (queue, lane) WHERE lane != ''",
    "CREATE INDEX jobs_cancelling ON jobs (queue) WHERE flags & 1",
    # Of what has ended, `until_ms` says how long the name is still taken.
    "CREATE TABLE uniques (queue INTEGER NOT NULL, name TEXT NOT NULL, job_id BLOB NOT NULL,"
    " until_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE INDEX uniques_by_end ON uniques (until_ms) WHERE until_ms IS NOT NULL",
    "CREATE TABLE ticks (queue INTEGER NOT NULL, schedule TEXT NOT NULL, last_ms INTEGER NOT NULL,"
    " PRIMARY KEY (queue, schedule)) WITHOUT ROWID",
    # `known_as` is the id by which the child knows its parent: another one if the parent stands
    # for a job that was not added.
    "CREATE TABLE children (queue INTEGER NOT NULL, parent BLOB NOT NULL, child_queue TEXT NOT"
    " NULL, child BLOB NOT NULL, known_as BLOB NOT NULL, runs_anyway INTEGER NOT NULL,"
    " PRIMARY KEY (queue, parent, child_queue, child, known_as)) WITHOUT ROWID",
    # What a job blocked by a flow waits for, and what it will do then.
    "CREATE TABLE joins (queue INTEGER NOT NULL, child BLOB NOT NULL, remaining INTEGER NOT NULL,"
    " delay_ms INTEGER, at_ms INTEGER, PRIMARY KEY (queue, child)) WITHOUT ROWID",
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, child BLOB NOT NULL,"
    " parent BLOB NOT NULL, place INTEGER NOT NULL, arrived INTEGER NOT NULL DEFAULT 0,"
    " value BLOB NOT NULL DEFAULT x'', UNIQUE (queue, child, parent, place))",
    # By name: a queue can be paused before anything is sent to it. No task: the queue itself.
    "CREATE TABLE pauses (namespace TEXT NOT NULL, queue TEXT NOT NULL, task TEXT NOT NULL,"
    " PRIMARY KEY (namespace, queue, task)) WITHOUT ROWID",
    # `passed` counts jobs that were let through and have not begun; `spent_until_ms` is when the
    # burst is whole again; `opens_ms` when the line is to be looked at, null for nobody or never.
    "CREATE TABLE limits (queue INTEGER NOT NULL, name TEXT NOT NULL, passed INTEGER NOT NULL,"
    " spent_until_ms REAL NOT NULL, opens_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE TABLE starts (queue INTEGER NOT NULL, name TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL, expires_ms INTEGER NOT NULL, PRIMARY KEY (queue, name, at_ms))"
    " WITHOUT ROWID",
    "CREATE TABLE progress (queue INTEGER NOT NULL, job_id BLOB NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY (queue, job_id)) WITHOUT ROWID",
    "CREATE TABLE logs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " following INTEGER NOT NULL, expires_ms INTEGER NOT NULL, UNIQUE (queue, job_id))",
    "CREATE INDEX logs_by_expiry ON logs (expires_ms)",
    "CREATE TABLE lines (log INTEGER NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL,"
    " PRIMARY KEY (log, number)) WITHOUT ROWID",
    "CREATE TABLE once (queue INTEGER NOT NULL, job_id BLOB NOT NULL, name TEXT NOT NULL,"
    " value BLOB NOT NULL, PRIMARY KEY (queue, job_id, name)) WITHOUT ROWID",
    "CREATE TABLE kv (namespace TEXT NOT NULL, space TEXT NOT NULL, name TEXT NOT NULL,"
    " value BLOB NOT NULL, expires_ms INTEGER, PRIMARY KEY (namespace, space, name))"
    " WITHOUT ROWID",
    # `first` numbers the facts of a queue through all its rows, from 1.
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL,"
    " count INTEGER NOT NULL, at_ms INTEGER NOT NULL, facts BLOB NOT NULL, UNIQUE (queue, first))",
    "CREATE TABLE counters (queue INTEGER NOT NULL, minute INTEGER NOT NULL, task TEXT NOT NULL,"
    " kind TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (queue, minute, task, kind))"
    " WITHOUT ROWID",
)
# The events of one log are numbered without gaps, from `first` to `last`, and their times never go
# back, so that places are found and what is behind them is counted without an index. `position` is
# the last event that a group has taken into its own queue. `seen_ms` is when it last looked.
_THIRD = (
    "CREATE TABLE topics (log INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " last_ms INTEGER NOT NULL)",
    "CREATE TABLE topic_events (id INTEGER PRIMARY KEY, log INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " added_ms INTEGER NOT NULL, lane TEXT NOT NULL, envelope BLOB NOT NULL, UNIQUE (log, job_id))",
    "CREATE TABLE topic_groups (queue INTEGER PRIMARY KEY, log INTEGER NOT NULL,"
    " ordered INTEGER NOT NULL, on_failure TEXT NOT NULL, position INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL)",
    "CREATE INDEX topic_groups_by_log ON topic_groups (log)",
    # `event` is the one that went dead; if the key is blocked, its row keeps the place in the lane.
    "CREATE TABLE stopped_keys (queue INTEGER NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,"
    " event BLOB NOT NULL, since_ms INTEGER NOT NULL, PRIMARY KEY (queue, key)) WITHOUT ROWID",
    "CREATE INDEX stopped_keys_by_event ON stopped_keys (queue, event)",
)
# `ready_ms` is since when a running job had waited; it stands behind the bodies, because it is read
# with them only. With `time_ms` the index tells of those that wait by itself.
_FOURTH = (
    "ALTER TABLE jobs ADD COLUMN ready_ms INTEGER NOT NULL DEFAULT 0",
    # At least since now: when they came in line was not written.
    "UPDATE jobs SET time_ms = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    " WHERE state = 'waiting'",
    "DROP INDEX jobs_waiting",
    "CREATE INDEX jobs_waiting ON jobs (queue, priority DESC, position, time_ms)"
    " WHERE state = 'waiting'",
)
# With the constraints of those in a lane the index tells by itself whether they agree on how many
# may be.
_FIFTH = (
    "DROP INDEX jobs_in_lane",
    "CREATE INDEX jobs_in_lane ON jobs (queue, lane, constraints) WHERE lane != ''",
)
UPGRADES = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
"""What brings a file of version n to version n + 1."""
