"""What is public, by page of the reference; a test compares it with `headrace.__all__`."""

from __future__ import annotations

from typing import NamedTuple


class ReferencePage(NamedTuple):
    title: str
    about: str
    names: tuple[str, ...]


def _of(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names.split())


PAGES = {
    "app": ReferencePage(
        "App",
        "What a program declares and sends with. Guides: [tasks](../tasks.md), "
        "[topics](../topics.md), [schedules](../schedules.md), [workers](../workers.md), "
        "[stores](../stores.md).",
        _of("headrace", "Headrace"),
    ),
    "tasks": ReferencePage(
        "Tasks",
        "What `@app.task` makes, and what a running function is given. Guides: "
        "[tasks](../tasks.md), [retries](../retries.md), [progress](../progress.md), "
        "[payloads](../payloads.md), [effects](../idempotency.md).",
        _of("headrace", "Task Tasks Call Retry RetryLater Reject Defer Context current Once")
        + _of("headrace", "UnknownJob Codec Offload"),
    ),
    "jobs": ReferencePage(
        "Jobs",
        "The handle of a job that was sent, and what it says. Guides: "
        "[tasks](../tasks.md), [cancelling](../cancelling.md), [history](../history.md).",
        _of("headrace", "Job JobInfo AttemptInfo JobUpdate Progress State Reason"),
    ),
    "flows": ReferencePage(
        "Flows",
        "Calls that wait for one another. Guide: [flows](../flows.md).",
        _of("headrace", "chain group Flow FlowJob FlowCounts FlowUpdate"),
    ),
    "schedules": ReferencePage(
        "Schedules",
        "`@app.cron` and `@app.every` are [methods of the app](app.md). `app.schedules` makes and "
        "changes schedules at run time. Guide: [schedules](../schedules.md).",
        (*_of("headrace.client.schedules", "Schedules"), *_of("headrace", "Schedule")),
    ),
    "topics": ReferencePage(
        "Topics",
        "What `app.topic` makes. Guides: [topics](../topics.md), [order](../order.md), "
        "[schemas](../schemas.md).",
        _of("headrace", "Topic Subscription Delivery Event DeadEvent PublishOutcome PublishResult")
        + _of("headrace", "Unpublished EventCodec"),
    ),
    "workers": ReferencePage(
        "Workers",
        "What `app.worker` makes, and what goes around its runs. Guides: [workers](../workers.md), "
        "[middleware](../middleware.md), [tracing](../tracing.md), [audit trail](../audit.md), "
        "[logs](../logs.md).",
        _of("headrace.worker.worker", "Worker")
        + _of("headrace", "WorkerOutcome WorkerEvent ScalingSnapshot Load scale_by_load")
        + _of("headrace", "Middleware Tracing AuditRecord JsonFormatter"),
    ),
    "admin": ReferencePage(
        "Admin",
        "What people ask and do about queues, jobs and topics: `app.admin`. Guides: "
        "[looking after jobs](../admin.md), [dead jobs](../dead.md), [events](../events.md).",
        _of("headrace.admin", "Admin JobFilter JobSummary JobDetail JobCause JobPage JobEvent")
        + _of("headrace.admin", "FlowInfo FlowJobInfo CancelReport DeadInfo DeadPage DeadGroup")
        + _of("headrace.admin", "DeadGroups QueueInfo QueuePage MinuteStats ScheduleRun TickRun")
        + _of(
            "headrace.admin",
            "TopicInfo ShardInfo GroupInfo GroupCounts StoppedKeyInfo TooLargeToShow",
        )
        + _of("headrace.admin", "EventInfo WorkerInfo RunInfo Action StoreInfo"),
    ),
    "errors": ReferencePage(
        "Errors",
        "What is raised. `Reject`, `RetryLater` and `Defer`, which a function raises to say how "
        "its job goes on, are among the [tasks](tasks.md).",
        _of("headrace", "HeadraceError ConfigError SendError ArgumentError PayloadTooLarge")
        + _of("headrace", "EventError EnqueueUnknown QueueFull KeyFull TopicFull OffloadError")
        + _of("headrace", "JobError JobFailed JobCancelled ResultTimeout ResultExpired")
        + _of(
            "headrace",
            "ResultLost ResultUnreadable JobNotFound QueueNotFound TopicNotFound GroupNotFound",
        )
        + _of("headrace", "EventNotFound ScheduleNotFound WorkerNotFound StoreError")
        + _of("headrace", "StoreUnavailable StoreRefused StoreFull StoreMismatch LeaseLost")
        + _of("headrace", "DeliveryUsed")
        + _of("headrace", "TaskCancelled ProcessDied BatchError AuditError"),
    ),
    "testing": ReferencePage(
        "Testing",
        "`headrace.testing`, for tests of programs that use Headrace, and of stores. Guide: "
        "[testing](../testing.md).",
        _of("headrace.testing", "TestKit perform perform_sync perform_batch Performed context")
        + _of("headrace.testing", "RecordedContext Sent ManualClock StoreConformance"),
    ),
    "metrics": ReferencePage(
        "Metrics",
        "Sinks for `app.metrics`. Guide: [metrics](../metrics.md).",
        _of("headrace.metrics.statsd", "Statsd")
        + _of("headrace.metrics.opentelemetry", "OpenTelemetryMetrics"),
    ),
    "outbox": ReferencePage(
        "Outbox",
        "Jobs and events as part of a transaction of your own database. Guide: "
        "[outbox and inbox](../outbox.md).",
        _of("headrace.outbox", "Outbox Relay Inbox FailedRow"),
    ),
    "dashboard": ReferencePage(
        "Dashboard",
        "The dashboard as an ASGI app. Guide: [dashboard](../dashboard.md).",
        _of("headrace", "dashboard") + _of("headrace.web.auth.users", "Passwords User Role"),
    ),
    "integrations": ReferencePage(
        "Web frameworks",
        "A module for each framework. Guide: [web frameworks](../integrations.md).",
        _of("headrace.integrations", "asgi.lifespan fastapi.depends flask.init_app")
        + _of("headrace.integrations", "flask.current_jobs django.enqueue_on_commit")
        + _of("headrace.integrations", "django.backend.HeadraceBackend"),
    ),
}

# Where a module has the name of what is in it.
PLACES = {"headrace.testing.perform": "headrace.testing.perform.perform.perform"}

# Members without an underscore because other modules of the package use them; programs do not.
INSIDE = {
    "headrace.Headrace": "enter_middleware session store find_queue result_form result_timeout "
    "confirm_replicas confirm_disk credential_provider redact actions_kept metrics_prefix "
    "history_rules max_pending_per_key max_reconnect unknown_task_after payloads modules "
    "patterns new_declarations scaling_strategy middlewares listeners last_resort outgoing sends "
    "running_workers overrides process_lifespan_declared "
    "make_task register prepare_schedule accept"
    " awaits_results shown_url",
    "headrace.Tasks": "make_task register prepare_schedule accept",
    "headrace.Task": "unpack with_context max_payload offload included_by injects packer "
    "scheduled_call",
    "headrace.Subscription": "unpack with_context max_payload offload join delivery wants_delivery"
    " call options enqueue enqueue_sync"
    " scheduled_call included_by injects packer dead_handler on_success on_dead",
    "headrace.Call": "heads ends gives_list feed_from parcel needs_time new_id with_headers"
    " with_options",
    "headrace.Flow": "heads ends gives_list",
    "headrace.Topic": "prepare check_free add_group create_groups decode most_sent event_of"
    " place_of place_of_sync"
    " require_key task names_classes",
    "headrace.PublishOutcome": "add fail drop extend",
    "headrace.Event": "load",
    "headrace.QueueFull": "for_all of_flow",
    "headrace.KeyFull": "for_all of_flow",
    "headrace.JsonFormatter": "format",
    "headrace.Progress": "at",
    "headrace.Context": "cancel",
    "headrace.Schedule": "read broken",
    "headrace.client.schedules.Schedules": "prepare records send_ticks declared",
    "headrace.Tracing": "send send_many publish received wants run within",
    "headrace.admin.JobDetail": "whole",
    "headrace.admin.DeadInfo": "plain_arguments opened",
    "headrace.web.auth.users.Passwords": "check named",
    "headrace.integrations.django.backend.HeadraceBackend": "validate_task enqueue aenqueue"
    " get_result check",
    "headrace.worker.worker.Worker": "is_supervised totals runtime",
}
# In any class: makes it from what the store has.
MAKES = "of"

# Their overloads are for type checkers: they say the same to people, again and again.
ONE_SIGNATURE = {*_of("headrace", "Task chain group Flow")}

# What programs make themselves. All others are made by Headrace: what their constructors take is
# nobody else's concern, and their fields are what there is to know.
CONSTRUCTED = {
    *_of("headrace", "Headrace Retry RetryLater Reject Defer Offload Tracing JsonFormatter"),
    *_of("headrace", "BatchError"),
    *_of("headrace.admin", "JobFilter"),
    *_of("headrace.testing", "ManualClock"),
    *_of("headrace.metrics.statsd", "Statsd"),
    *_of("headrace.metrics.opentelemetry", "OpenTelemetryMetrics"),
    *_of("headrace.outbox", "Outbox Inbox"),
    *_of("headrace.web.auth.users", "Passwords User"),
}
