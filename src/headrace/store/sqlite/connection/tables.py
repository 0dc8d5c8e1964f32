"""The tables of a Headrace file, version by version."""

from __future__ import annotations

_FIRST = (
    "CREATE TABLE queues (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL,"
    " UNIQUE (namespace, name))",
    # When abandoned jobs were last looked for; also for queues that were never sent to.
    "CREATE TABLE reclaims (namespace TEXT NOT NULL, queue TEXT NOT NULL,"
    " looked_ms INTEGER NOT NULL, hold_until_ms INTEGER NOT NULL,"
    " PRIMARY KEY (namespace, queue)) WITHOUT ROWID",
    "CREATE TABLE numbers (last INTEGER NOT NULL)",
    "INSERT INTO numbers VALUES (0)",
    # A job gets a new row id each time it takes a new place, and no id is used twice, so (id,
    # count) names one delivery for ever. `time_ms` depends on the state: when a waiting job became
    # ready, a scheduled one is due, the lease of a running one ends, a dead one died. Bodies are
    # the last columns, so that the others are read without them. `lane` is the lane in which the
    # job has a place, `task_lane` the second one if it has two, `gate` the gate at which it is
    # blocked, `flags` what else there is of it (see `entries`), `runner` where it runs: the format
    # of its envelope. `ready_ms` is when a running job had become ready; it comes after the bodies,
    # because it is only read with them. `batch` is the batch in which a job has gathered
    # that waits for a worker or is running.
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " state TEXT NOT NULL, position INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',"
    " reason TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL DEFAULT 0,"
    " runner INTEGER NOT NULL DEFAULT 1 CHECK (runner BETWEEN 1 AND 3),"
    " flags INTEGER NOT NULL DEFAULT 0, lane TEXT NOT NULL DEFAULT '',"
    " task_lane TEXT NOT NULL DEFAULT '',"
    " gate TEXT NOT NULL DEFAULT '', constraints BLOB NOT NULL DEFAULT x'',"
    " history BLOB NOT NULL DEFAULT x'', inputs BLOB NOT NULL DEFAULT x'', envelope BLOB NOT NULL,"
    " ready_ms INTEGER NOT NULL DEFAULT 0, flow TEXT NOT NULL DEFAULT '',"
    " batch INTEGER NOT NULL DEFAULT 0)",
    # Their last columns are there so that they cover queries for them.
    "CREATE UNIQUE INDEX jobs_by_id ON jobs (queue, job_id)",
    "CREATE INDEX jobs_waiting ON jobs (queue, runner, priority DESC, position, time_ms)"
    " WHERE state = 'waiting'",
    "CREATE INDEX jobs_scheduled ON jobs (queue, time_ms) WHERE state = 'scheduled'",
    "CREATE INDEX jobs_running ON jobs (queue, time_ms, runner) WHERE state = 'running'",
    "CREATE INDEX jobs_dead ON jobs (queue, time_ms) WHERE state = 'dead'",
    "CREATE INDEX jobs_blocked ON jobs (queue) WHERE state = 'blocked'",
    "CREATE INDEX jobs_at_gate ON jobs (queue, gate, position) WHERE gate != ''",
    "CREATE INDEX jobs_in_lane ON jobs (queue, lane, constraints) WHERE lane != ''",
    "CREATE INDEX jobs_in_task_lane ON jobs (queue, task_lane, constraints) WHERE task_lane != ''",
    "CREATE INDEX jobs_of_flow ON jobs (queue, flow, state) WHERE flow != ''",
    "CREATE INDEX jobs_of_batch ON jobs (batch) WHERE batch > 0",
    "CREATE INDEX jobs_cancelling ON jobs (queue) WHERE flags & 1",
    "CREATE TABLE results (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " expires_ms INTEGER NOT NULL, verdict BLOB NOT NULL, UNIQUE (queue, job_id))",
    "CREATE INDEX results_by_expiry ON results (expires_ms)",
    # `until_ms`: how long the name stays taken after its job has ended.
    "CREATE TABLE uniques (queue INTEGER NOT NULL, name TEXT NOT NULL, job_id BLOB NOT NULL,"
    " until_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE INDEX uniques_by_end ON uniques (until_ms) WHERE until_ms IS NOT NULL",
    "CREATE TABLE ticks (queue INTEGER NOT NULL, schedule TEXT NOT NULL, last_ms INTEGER NOT NULL,"
    " PRIMARY KEY (queue, schedule)) WITHOUT ROWID",
    # Jobs of a flow that are in no row of `jobs` any more. A flow has a row for each of its queues.
    "CREATE TABLE flow_parts (flow TEXT NOT NULL, queue INTEGER NOT NULL,"
    " done INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0,"
    " cancelled INTEGER NOT NULL DEFAULT 0, expires_ms INTEGER NOT NULL,"
    " PRIMARY KEY (flow, queue)) WITHOUT ROWID",
    "CREATE INDEX flow_parts_by_expiry ON flow_parts (expires_ms)",
    # `known_as` is the id by which the child knows its parent; it differs from `parent` if that
    # stands for a job that was not added.
    "CREATE TABLE children (queue INTEGER NOT NULL, parent BLOB NOT NULL, child_queue TEXT NOT"
    " NULL, child BLOB NOT NULL, known_as BLOB NOT NULL, runs_anyway INTEGER NOT NULL,"
    " PRIMARY KEY (queue, parent, child_queue, child, known_as)) WITHOUT ROWID",
    # How many parents a job still waits for, and when it runs after that.
    # `cancelled`: a parent was, while the job was dead because another had failed.
    "CREATE TABLE joins (queue INTEGER NOT NULL, child BLOB NOT NULL, remaining INTEGER NOT NULL,"
    " delay_ms INTEGER, at_ms INTEGER, cancelled INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY (queue, child)) WITHOUT ROWID",
    # `failed_ms`: when the parent failed, unless it was replayed since; `cause`: which job failed
    # first; `added_by`: the parent that adds this one, until it is stored.
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, child BLOB NOT NULL,"
    " parent BLOB NOT NULL, place INTEGER NOT NULL, arrived INTEGER NOT NULL DEFAULT 0,"
    " value BLOB NOT NULL DEFAULT x'', failed_ms INTEGER NOT NULL DEFAULT 0,"
    " cause BLOB NOT NULL DEFAULT x'', added_by BLOB NOT NULL DEFAULT x'',"
    " UNIQUE (queue, child, parent, place))",
    "CREATE INDEX parents_added ON parents (queue, child, added_by) WHERE added_by != x''",
    "CREATE INDEX parents_failed ON parents (queue, child, failed_ms) WHERE failed_ms > 0",
    # By name: a queue can be paused before it is sent to. An empty task is the queue itself.
    "CREATE TABLE pauses (namespace TEXT NOT NULL, queue TEXT NOT NULL, task TEXT NOT NULL,"
    " PRIMARY KEY (namespace, queue, task)) WITHOUT ROWID",
    # `passed` counts jobs let through that have not begun; `spent_until_ms` is when the burst is
    # whole again; `opens_ms` when the next blocked job may pass, null if none is or it is unknown.
    "CREATE TABLE limits (queue INTEGER NOT NULL, name TEXT NOT NULL, passed INTEGER NOT NULL,"
    " spent_until_ms REAL NOT NULL, opens_ms INTEGER, PRIMARY KEY (queue, name)) WITHOUT ROWID",
    "CREATE TABLE starts (queue INTEGER NOT NULL, name TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    " count INTEGER NOT NULL, expires_ms INTEGER NOT NULL, PRIMARY KEY (queue, name, at_ms))"
    " WITHOUT ROWID",
    # When to look again at jobs that gather at the gate of a batch.
    "CREATE TABLE gatherings (queue INTEGER NOT NULL, name TEXT NOT NULL,"
    " opens_ms INTEGER NOT NULL, PRIMARY KEY (queue, name)) WITHOUT ROWID",
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
    # Chunks of ended jobs, as `store/history/chunk.py` has them. `total` is how many jobs the shelf
    # ever had up to the end of the chunk, `last_ms` when the last of them ended. The bounds of a
    # shelf are those of its last chunk.
    "CREATE TABLE history (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, shelf TEXT NOT NULL,"
    " count INTEGER NOT NULL, total INTEGER NOT NULL, most INTEGER NOT NULL,"
    " keep_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
    " marks BLOB NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX history_by_shelf ON history (queue, shelf, id, total, count)",
    "CREATE INDEX history_by_expiry ON history (expires_ms)",
    # Facts of a queue are numbered from 1, through all rows; `first` is the first of this one.
    "CREATE TABLE facts (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, first INTEGER NOT NULL,"
    " count INTEGER NOT NULL, at_ms INTEGER NOT NULL, facts BLOB NOT NULL, UNIQUE (queue, first))",
    "CREATE TABLE counters (queue INTEGER NOT NULL, minute INTEGER NOT NULL, task TEXT NOT NULL,"
    " kind TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (queue, minute, task, kind))"
    " WITHOUT ROWID",
    # The events of one log are numbered without gaps, from `first` to `last`, and their times never
    # go back, so places are found and events behind them are counted without an index. `position`
    # is the last event that a group has taken into its own queue, `seen_ms` when it last looked.
    "CREATE TABLE topics (log INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " last_ms INTEGER NOT NULL)",
    "CREATE TABLE topic_events (id INTEGER PRIMARY KEY, log INTEGER NOT NULL, job_id BLOB NOT NULL,"
    " added_ms INTEGER NOT NULL, lane TEXT NOT NULL, envelope BLOB NOT NULL, UNIQUE (log, job_id))",
    "CREATE TABLE topic_groups (queue INTEGER PRIMARY KEY, log INTEGER NOT NULL,"
    " ordered INTEGER NOT NULL, on_failure TEXT NOT NULL, position INTEGER NOT NULL,"
    " seen_ms INTEGER NOT NULL)",
    "CREATE INDEX topic_groups_by_log ON topic_groups (log)",
    # `event` is the dead one; if the key is blocked, its row keeps the place in the lane.
    "CREATE TABLE stopped_keys (queue INTEGER NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,"
    " event BLOB NOT NULL, since_ms INTEGER NOT NULL, PRIMARY KEY (queue, key)) WITHOUT ROWID",
    "CREATE INDEX stopped_keys_by_event ON stopped_keys (queue, event)",
)
UPGRADES = (_FIRST,)
"""Item n brings a file from version n to version n + 1."""
