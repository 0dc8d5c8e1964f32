"""The names of all keys and channels. None is spelled anywhere else.

All keys of a queue carry the hash tag `{namespace:queue}`, so they live in one slot of a cluster
and a script may touch them together.
"""

from __future__ import annotations

import hashlib
import re

from headrace.core.job.capacity import Runner
from headrace.core.job.history_rules import HistoryRules
from headrace.core.job.ids import JobId, bucket_of
from headrace.core.queue_names import group_source

WORKERS = "workers"
"""The one consumer group of the streams of an ordinary queue."""

DRAW = "draw"
"""The consumer as which `draw.lua` moves events of a log into the queue of an ordered group."""

LOG = b"@/"
"""Before the entry id in the receipt of an event that was read from its log."""

RETURNED = "returned"
"""The consumer that owns what a worker handed back; any worker may take it at once."""

BATCHES = b"b"
"""What the level labels of batches that have gathered begin with."""

_RUNNERS: dict[bytes, Runner] = {b"t": "thread", b"p": "process"}
_LABELS = {runner: label.decode() for label, runner in _RUNNERS.items()}


# Special characters in a pattern of SCAN.
_SPECIAL = re.compile(r"([\\*?\[\]^])")


def signed(worker: str, lease_ms: int) -> str:
    """The name of a worker in the consumer group. It includes the worker's lease, so that others
    know when it is gone, whatever their own leases are."""
    return f"{worker}~{lease_ms}"


def runner_of_label(label: bytes) -> Runner:
    """The runner of the jobs with this level label; also of a receipt, which begins with it."""
    return _RUNNERS.get(label[1:2] if label[:1] == BATCHES else label[:1], "loop")


def unsigned(consumer: str) -> str:
    return consumer.rpartition("~")[0]


_TAG = re.compile(r"\{([^{}:]+)[:}]")


def namespace_of(argument: object) -> str | None:
    """The namespace of a key among the arguments of a command; None if it is no key."""
    text = argument.decode(errors="replace") if isinstance(argument, bytes) else str(argument)
    found = _TAG.match(text)
    return found[1].replace("%3A", ":").replace("%25", "%") if found else None


class QueueKeys:
    """The keys of one queue. A name that others are made from by adding to it ends in a colon.

    | key             | type   | holds                                                            |
    |-----------------|--------|------------------------------------------------------------------|
    | ready           | stream | jobs to run: fields `j` (envelope), `h` (history), `t`            |
    |                 |        | (constraints), `i` (inputs), `b` (size and name of its batch, if |
    |                 |        | it gathered), each but the first only if there is one            |
    | level + l       | stream | the same, of jobs with level label l: `t` for those that run in  |
    |                 |        | threads, `p` in processes, nothing for the loop; then their      |
    |                 |        | priority unless that is 0; `b` before that for whole batches     |
    | levels          | zset   | the labels that were ever used, by priority                      |
    | jobs + b        | hash   | the index. Of the jobs of bucket b, job id → place: an entry id  |
    |                 |        | of `ready`, or a label, `/` and an entry id; `s` scheduled,      |
    |                 |        | `S` the same with its lane kept; `k` in its lane, `g` and a      |
    |                 |        | gate, `f` behind other jobs; `d` and an entry id of `dead`       |
    | scheduled       | zset   | job id by due time in ms                                         |
    | parked          | hash   | job id → lengths and bytes of all that a stream entry would hold  |
    | dead            | stream | dead jobs: fields `k` (job id), `r` (reason), `j`, `h`, `t`, `i` |
    | result + k      | string | the verdict on job k; expires by itself                          |
    | lanes           | hash   | lane → how many jobs are in it; none for one that is idle        |
    | lane + l        | zset   | job ids that wait for lane l, in order                           |
    | gates           | zset   | gates by the time at which they may let the next job pass        |
    | line + g        | zset   | job ids that wait at gate g, in order; at that of a batch by the |
    |                 |        | time at which they came, in microseconds                         |
    | starts + g      | list   | when the jobs that passed gate g began; expires by itself        |
    | passed + g      | set    | job ids that passed gate g and have not begun                    |
    | pace + g        | string | when the next may pass if they are spread out; expires by itself |
    | unique + u      | string | the job that has the unique name u; expires if kept after its end |
    | flow + k        | hash   | what job k waits for: see lua/moving/flows.lua                    |
    | children        | hash   | job id → those that wait for it; of a dead one too               |
    | flow_jobs + f   | set    | the jobs of flow f that have not ended, or are dead              |
    | flow_counts + f | hash   | state → how many jobs of flow f have left in it; `q` and a queue |
    |                 |        | → the flow has jobs there too; expires after the last            |
    | flow_messages   | stream | endings on their way to jobs of other queues, and jobs on their  |
    |                 |        | way there, which have a field `w`                                |
    | cancelling      | hash   | running jobs that should end                                     |
    | paused          | set    | paused tasks; an empty name for the whole queue                  |
    | progress        | hash   | job id → its progress                                            |
    | journal + k     | list   | log lines of job k, the number of the first before them; expires |
    | history + s     | hash   | the ended jobs of shelf s in chunks, each with a number: `d` and |
    |                 |        | the number → data, `i` → marks, `t` → when they ended; and `m`,  |
    |                 |        | first and last chunk, number of jobs, last end, bounds; expires  |
    | shelves         | set    | the names of the shelves that tasks have of their own; expires   |
    | once            | hash   | job id → what was done once, by name                             |
    | ticks           | zset   | schedules by the last time for which they sent a job             |
    | events          | stream | what happened: fields `n` (how many facts), `f`, `x` (not        |
    |                 |        | these); or of one fact its kind and task as a field, and the id  |
    | facts           | string | how many facts `events` holds                                    |
    | minute + m      | hash   | kind and task → count; expires by itself                         |
    | epoch           | string | counts the times that leases were taken from their holders       |
    | reclaims        | hash   | when abandoned jobs were last looked for, and where to go on;    |
    |                 |        | what the clock showed when gates were last looked at             |
    | promoter        | string | the consumer that promotes for now; expires by itself            |
    | flow_relay      | string | the consumer that relays messages for now; expires by itself     |
    | sessions + s    | string | the last request of session s that was applied, and its answer;  |
    |                 |        | expires by itself                                                |

    A topic's log is the queue `@topic`: its `ready` is the log, `jobs` says where each event is.
    The queue of a group, `group@topic`, is in the same slot, and has beside what others have:

    | key             | type   | holds                                                            |
    |-----------------|--------|------------------------------------------------------------------|
    | log             | stream | the events of the topic; the consumer group is the group         |
    | log_jobs + b    | hash   | `jobs` of the log                                                |
    | groups          | hash   | group → `ordered on_failure seen`; the same for all of the topic |
    | counted         | hash   | group → the life of the server in which it was last counted how  |
    |                 |        | much the group was given; the same for all of the topic          |
    | stopped         | hash   | key → `state since event` if an event of the key went dead       |
    | disbanded       | string | the group was removed: it must not be created again; expires     |
    | trimmer         | string | someone trims the log now; expires by itself                     |
    """

    ALL = (
        "cancelling",
        "children",
        "control_channel",
        "counted",
        "flow_relay",
        "dead",
        "disbanded",
        "due_channel",
        "epoch",
        "events",
        "facts",
        "finished_channel",
        "flow",
        "flow_counts",
        "flow_jobs",
        "gates",
        "groups",
        "history",
        "jobs",
        "lane",
        "lanes",
        "level",
        "levels",
        "line",
        "journal",
        "log",
        "log_jobs",
        "reclaims",
        "once",
        "minute",
        "reports_channel",
        "flow_messages",
        "pace",
        "parked",
        "passed",
        "paused",
        "progress",
        "promoter",
        "ready",
        "result",
        "scheduled",
        "sessions",
        "shelves",
        "starts",
        "stopped",
        "ticks",
        "trimmer",
        "unique",
    )
    __slots__ = (*ALL, "all", "group", "history_rules", "patterns", "queue")

    def __init__(
        self, namespace: str, queue: str, history_rules: HistoryRules | None = None
    ) -> None:
        source = group_source(queue)
        slot = f"{{{escaped(namespace)}:{source.log if source else queue}}}"
        base = f"{slot}/{escaped(source.group)}" if source else slot
        self.queue = queue
        self.history_rules = history_rules or HistoryRules()
        self.group = source.group if source else WORKERS
        """The consumer group of all its streams, so that one command reads them together."""
        self.log = f"{slot}:ready"
        self.log_jobs = f"{slot}:jobs:"
        self.groups = f"{slot}:groups"
        self.counted = f"{slot}:counted"
        self.trimmer = f"{slot}:ticket:trim"
        self.stopped = f"{base}:stopped"
        self.disbanded = f"{base}:disbanded"
        self.ready = f"{base}:ready"
        self.level = f"{base}:ready:"
        self.levels = f"{base}:levels"
        self.jobs = f"{base}:jobs:"
        self.scheduled = f"{base}:scheduled"
        self.parked = f"{base}:parked"
        self.dead = f"{base}:dead"
        self.result = f"{base}:result:"
        self.lanes = f"{base}:lanes"
        self.lane = f"{base}:lane:"
        self.gates = f"{base}:gates"
        self.line = f"{base}:line:"
        self.starts = f"{base}:starts:"
        self.passed = f"{base}:passed:"
        self.pace = f"{base}:pace:"
        self.unique = f"{base}:unique:"
        self.flow = f"{base}:flow:"
        self.flow_jobs = f"{base}:flow_jobs:"
        self.flow_counts = f"{base}:flow_counts:"
        self.children = f"{base}:children"
        self.flow_messages = f"{base}:flow_messages"
        self.cancelling = f"{base}:cancelling"
        self.paused = f"{base}:paused"
        self.progress = f"{base}:progress"
        self.journal = f"{base}:log:"
        self.history = f"{base}:history:"
        self.shelves = f"{base}:shelves"
        self.once = f"{base}:once"
        self.ticks = f"{base}:ticks"
        self.events = f"{base}:events"
        self.facts = f"{base}:facts"
        self.minute = f"{base}:minute:"
        self.epoch = f"{base}:epoch"
        self.reclaims = f"{base}:reclaims"
        self.promoter = f"{base}:ticket:promote"
        self.flow_relay = f"{base}:ticket:flow_relay"
        self.sessions = f"{base}:session:"
        self.finished_channel = f"{base}:finished"
        self.due_channel = f"{base}:due"
        self.control_channel = f"{base}:control"
        self.reports_channel = f"{base}:reports"
        self.all = [getattr(self, name) for name in self.ALL]
        whole = _SPECIAL.sub(r"\\\1", base)
        self.patterns = (f"{whole}:*", f"{whole}/*")
        """A SCAN pattern for all keys of the queue; for a log, also those of its groups."""

    def bucket_of(self, job_id: JobId) -> bytes:
        """The hash that has the place of a job: `bucket_of` in `lua/prelude.lua`."""
        own = bucket_of(job_id)
        if own is not None:
            return self.jobs.encode() + own
        mark = hashlib.sha1(job_id[:-1], usedforsecurity=False).hexdigest()
        return f"{self.jobs}={mark[:4]}".encode()

    def stream_of(self, runner: Runner) -> str:
        """The stream of the jobs of a runner that have no priority."""
        return self.ready if runner == "loop" else f"{self.level}{_LABELS[runner]}"


class KvKeys:
    """The keys of one space of key-value pairs.

    | key     | type | holds                                                      |
    |---------|------|------------------------------------------------------------|
    | values  | hash | name → value                                               |
    | expiry  | zset | name by the time until which its value is kept, if any     |
    | order   | zset | of records: all names, in their order                      |

    and `sessions`, as a queue has.
    """

    __slots__ = ("changed_channel", "expiry", "order", "sessions", "values")

    def __init__(self, namespace: str, space: str) -> None:
        base = f"{{{escaped(namespace)}}}:kv:{space}"
        self.values = f"{base}:values"
        self.expiry = f"{base}:expiry"
        self.order = f"{base}:order"
        self.sessions = f"{base}:session:"
        self.changed_channel = f"{base}:changed"


def escaped(namespace: str) -> str:
    """Escape colons: one in the namespace must not look like the one between it and the queue."""
    return namespace.replace("%", "%25").replace(":", "%3A")


def confirmation_key(key: str) -> str:
    """A short-lived key that is written before replicas are asked to confirm; in a cluster, on the
    same node as `key`."""
    return f"{key[: key.index('}') + 1]}:confirmed"


LAYOUT = b"1"
"""What these keys hold, and how. Not written while it is the first: a namespace without the key of
its layout has this one."""


def layout_key(namespace: str) -> str:
    """The layout of a namespace: a later Headrace, whose keys this one would misread, names it."""
    return f"{{{escaped(namespace)}}}:layout"


def queues_key(namespace: str) -> str:
    """The set of names of all queues of a namespace."""
    return f"{{{escaped(namespace)}}}:queues"
