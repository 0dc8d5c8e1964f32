"""Names and options of Celery, RQ, Dramatiq, arq, taskiq, Huey and Procrastinate: what each of them
is here."""

from __future__ import annotations

from typing import TypeGuard

from headrace.core.wrong_use import Hint


def for_retries(retries: object) -> str:
    """What to write for a number of retries, which does not count the first run."""
    if not _is_count(retries):
        return "write retry=Retry(4) for three retries: the number counts all runs, the first too"
    return f"write retry=Retry({retries + 1}): the number counts all runs, the first too"


def for_runs(runs: object) -> str:
    """What to write for a number of runs."""
    return f"write retry=Retry({runs if _is_count(runs) else 3}): the number counts all runs"


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _for_rate(rate: object) -> str:
    """Celery's number is one per second."""
    if _is_count(rate):
        return f'write rate="{rate}/s"'
    return f'write rate="{rate}"' if isinstance(rate, str) else 'write rate="100/m"'


_SENDING = "write `await task.enqueue(…)`, or `task.enqueue_sync(…)` in code without an event loop"
_WITH_OPTIONS = (
    "write `await task.options(delay=…, queue=…).enqueue(…)`, or `.enqueue_sync(…)` in code "
    "without an event loop"
)
_CALLING = "write `task.call(…)`, and put calls together with chain() and group()"

OF_TASKS = {
    **dict.fromkeys(
        ("delay", "send", "kiq", "defer", "defer_async", "push", "submit", "asend", "adelay"),
        _SENDING,
    ),
    **dict.fromkeys(
        (
            *("apply_async", "aapply_async", "send_with_options", "configure", "kicker", "using"),
            *("schedule", "enqueue_in", "enqueue_at", "set", "with_options"),
        ),
        _WITH_OPTIONS,
    ),
    **dict.fromkeys(("s", "si", "subtask", "message", "message_with_options"), _CALLING),
    **dict.fromkeys(
        ("delay_on_commit", "enqueue_on_commit"),
        "send it after the commit, or through an outbox: see docs/outbox.md",
    ),
    **dict.fromkeys(
        ("apply", "call_local", "fn", "original_func"),
        "call the task itself: `task(…)` runs the function here and now",
    ),
    "retry": "raise `RetryLater(delay)` in the function, or give its task retry=Retry(…)",
    "enqueue_many": "write `await app.enqueue_many([task.call(…), task.call(…)])`",
    "map": "write `await app.enqueue_many([task.call(one) for one in many])`, or group([…])",
    "request": "give the function a parameter annotated `Context`, or call headrace.current()",
    "update_state": "report with `headrace.current().progress(0.5)`",
}

OF_APPS = {
    **dict.fromkeys(
        ("send_task", "delay", "apply_async", "enqueue_job", "enqueue_call", "send", "defer"),
        "send through the task: `await task.enqueue(…)`, or `task.enqueue_sync(…)` in code "
        "without an event loop; by its name `app.tasks[name]` has it",
    ),
    **dict.fromkeys(
        ("enqueue_in", "enqueue_at"),
        "write `await task.options(delay=…).enqueue(…)`, or options(at=…)",
    ),
    **dict.fromkeys(
        ("actor", "shared_task", "add_task", "register_task", "periodic_task", "task_decorator"),
        "declare tasks with @app.task, and those with a schedule with @app.cron or @app.every",
    ),
    **dict.fromkeys(
        ("add_periodic_task", "crontab", "on_after_configure", "beat_schedule", "scheduler"),
        "declare schedules with @app.cron or @app.every, or at run time with app.schedules.upsert",
    ),
    **dict.fromkeys(
        ("conf", "config_from_object", "config", "setup"),
        "give settings to Headrace(…), or set variables such as HEADRACE_URL",
    ),
    **dict.fromkeys(
        ("autodiscover_tasks", "import_tasks"),
        "name the modules with Headrace(include=[…])",
    ),
    **dict.fromkeys(
        ("run", "start", "run_worker", "worker_main", "Worker", "consume", "listen"),
        "run `headrace worker module:app`, or in code `await app.worker().run()`",
    ),
    **dict.fromkeys(("connect", "open", "startup"), "write `async with app:`"),
    **dict.fromkeys(("disconnect", "shutdown", "aclose"), "write `async with app:`, or close()"),
    **dict.fromkeys(("control", "inspect"), "what people ask and do is in app.admin"),
    **dict.fromkeys(("AsyncResult", "get_job", "fetch_job"), "app.job(id) is the handle of a job"),
    **dict.fromkeys(("chain", "group", "chord"), "import it: `from headrace import chain, group`"),
    **dict.fromkeys(("on_event", "on_startup", "on_shutdown"), "use @app.lifespan"),
}

OF_JOBS = {
    **dict.fromkeys(
        ("get", "get_result", "wait", "wait_result", "return_value", "return_value_async"),
        "write `await job.result(timeout)`, or `job.result_sync(timeout)` in code without an event "
        "loop",
    ),
    **dict.fromkeys(
        ("state", "ready", "successful", "failed", "get_status", "is_finished", "is_failed"),
        "write `await job.status()`, or `job.status_sync()` in code without an event loop",
    ),
    **dict.fromkeys(
        ("revoke", "abort", "delete"),
        "write `await job.cancel()`, or `job.cancel_sync()` in code without an event loop",
    ),
    **dict.fromkeys(("refresh", "enqueued_at", "meta"), "write `await job.info()`"),
}

TASK_OPTIONS: dict[str, Hint] = {
    **dict.fromkeys(("max_retries", "retries"), for_retries),
    **dict.fromkeys(("max_attempts", "attempts", "max_tries"), for_runs),
    **dict.fromkeys(
        (
            *("default_retry_delay", "retry_delay", "min_backoff", "max_backoff", "retry_backoff"),
            *("retry_backoff_max", "retry_jitter", "backoff", "retry_kwargs"),
        ),
        "write retry=Retry(3, base=…, cap=…)",
    ),
    **dict.fromkeys(
        ("autoretry_for", "throws", "retry_on", "retry_when"), "write retry=Retry(3, on=(…,))"
    ),
    **dict.fromkeys(
        ("time_limit", "soft_time_limit", "job_timeout", "time_out", "timeout_ms"),
        "write timeout=…, in seconds or as a timedelta",
    ),
    **dict.fromkeys(
        ("bind", "pass_context", "with_context"),
        "give the function a parameter annotated `Context`: it is filled in",
    ),
    **dict.fromkeys(("ignore_result", "store_results"), "write result_ttl=0 to keep no results"),
    **dict.fromkeys(("result_expires", "keep_result", "ttl"), "write result_ttl=…"),
    **dict.fromkeys(("queue_name",), "write queue=…"),
    **dict.fromkeys(("actor_name", "task_name"), "write name=…"),
    "rate_limit": _for_rate,
    **dict.fromkeys(
        ("acks_late", "reject_on_worker_lost"),
        "leave it out: a job is settled after it ran, and one whose worker died runs again",
    ),
    **dict.fromkeys(
        ("countdown", "delay", "eta", "at", "expires", "key", "headers", "tags", "id"),
        "it is for one call: write task.options(…).enqueue(…)",
    ),
    **dict.fromkeys(("cron", "every", "schedule"), "write @app.cron(…) or @app.every(…)"),
    **dict.fromkeys(("base", "serializer"), "leave it out; codec= says how arguments travel"),
    **dict.fromkeys(("lock", "singleton", "run_once", "queueing_lock"), "write unique=True"),
    **dict.fromkeys(("process", "thread", "processes"), 'write run_in="process" or "thread"'),
    "max_concurrency": "write concurrency=…",
    **dict.fromkeys(("on_failure", "on_error"), "write on_dead=…"),
}

CALL_OPTIONS: dict[str, Hint] = {
    **dict.fromkeys(("countdown", "defer_by", "in_", "seconds"), "write delay=…"),
    **dict.fromkeys(("eta", "defer_until", "schedule_at", "scheduled_at", "when"), "write at=…"),
    **dict.fromkeys(("task_id", "job_id", "_job_id"), "write id=…"),
    **dict.fromkeys(("ttl", "expire", "expires_in", "max_age"), "write expires=…"),
    **dict.fromkeys(("queue_name", "routing_key"), "write queue=…"),
    **dict.fromkeys(
        ("job_timeout", "time_limit", "soft_time_limit"),
        "write timeout=…, in seconds or as a timedelta",
    ),
    **dict.fromkeys(("max_retries", "retries"), for_retries),
    **dict.fromkeys(("max_attempts", "attempts", "max_tries", "job_try"), for_runs),
    **dict.fromkeys(("args", "kwargs"), "give the arguments to enqueue(…) itself"),
    **dict.fromkeys(
        ("name", "run_in", "batch", "rate", "concurrency", "result_ttl", "keep_done"),
        "it is for all jobs of a task: give it to @app.task(…)",
    ),
    **dict.fromkeys(("metadata", "labels"), "write headers={…}, or tags=[…]"),
    **dict.fromkeys(("depends_on",), "write call.after(other), and send it with app.enqueue()"),
    "queueing_lock": 'write unique="…"',
    "lock": 'write key="…", and give the task concurrency=1',
}

APP_OPTIONS = {
    **dict.fromkeys(
        ("broker", "broker_url", "redis_url", "dsn", "redis", "redis_settings", "connection"),
        'the URL of the store is the first argument: Headrace("redis://localhost")',
    ),
    **dict.fromkeys(
        ("backend", "result_backend"), "leave it out: results are kept in the store of url"
    ),
    **dict.fromkeys(("name", "prefix", "main"), "write namespace=…"),
    **dict.fromkeys(
        ("queue", "queues", "default_queue", "concurrency", "timeout", "retry", "result_ttl"),
        "give it to @app.task(…), to app.defaults(…) or to the worker",
    ),
    **dict.fromkeys(("imports", "modules"), "write include=[…]"),
    **dict.fromkeys(("middleware", "middlewares"), "call app.middleware(…)"),
    **dict.fromkeys(("timezone", "enable_utc", "tz"), "give it to @app.cron(…, timezone=…)"),
    **dict.fromkeys(
        ("task_always_eager", "always_eager", "immediate", "eager", "testing"),
        "in tests, use `with app.testing():`",
    ),
    "lifespan": "declare it with @app.lifespan",
}

SCHEDULE_OPTIONS = {
    **dict.fromkeys(("tz", "time_zone", "zone", "timezone_name"), 'write timezone="Europe/Berlin"'),
    **dict.fromkeys(("seconds", "interval", "period", "schedule", "run_every"), "write every=…"),
    **dict.fromkeys(("crontab", "expression", "expr", "spec"), "write cron=…"),
    **dict.fromkeys(
        ("minute", "hour", "minutes", "hours", "day", "days", "weekday", "month"),
        "write a cron expression such as '*/5 * * * *', or every=… in seconds or as a timedelta",
    ),
    **dict.fromkeys(("catch_up", "backfill", "coalesce", "misfire_grace_time"), "write missed=…"),
    **dict.fromkeys(("until", "end_date"), "write end=…"),
    **dict.fromkeys(("since", "start_date", "begin"), "write start=…"),
    **dict.fromkeys(("max_runs", "count", "times", "repeat"), "write limit=…"),
}

WORKER_OPTIONS = {
    **dict.fromkeys(("queue",), 'write queues=["…"]'),
    **dict.fromkeys(
        ("max_jobs", "prefetch", "pool_size", "slots", "workers"), "write concurrency=…"
    ),
    **dict.fromkeys(("pool", "worker_class"), 'give run_in="thread" or "process" to @app.task(…)'),
    **dict.fromkeys(("timeout", "job_timeout"), "give it to @app.task(…) or app.defaults(…)"),
    **dict.fromkeys(
        ("shutdown_timeout", "grace", "graceful_timeout", "warm_shutdown"), "write drain=…"
    ),
    **dict.fromkeys(
        ("with_scheduler", "beat", "B", "cron"), "leave it out: schedules=True is the default"
    ),
    **dict.fromkeys(("hostname", "n"), "write name=…"),
    **dict.fromkeys(
        ("loglevel", "logging_level", "log_level"), "set up logging yourself: see docs/logs.md"
    ),
}
