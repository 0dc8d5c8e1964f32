"""What a dead job or event means for others."""

from __future__ import annotations

from headrace.client.topic.subscription import Subscription
from headrace.core.job.envelope import Envelope


def consequence_of(envelope: Envelope, task: object) -> str:
    """The end of a sentence that says it is dead; empty if nothing follows for others."""
    if envelope.overrides.flow:
        return ", and with it all that waits for it in its flow"
    if not isinstance(task, Subscription) or not envelope.overrides.key:
        return ""
    topic, group = task.topic.name, task.wants.group
    return {
        "skip": "",
        "fail_key": ", and so is each later event of its key",
        "block": ", and later events of its key wait until it is replayed or purged, or the key is "
        f"freed: see headrace topics keys {topic} {group}",
    }[task.wants.failing]
