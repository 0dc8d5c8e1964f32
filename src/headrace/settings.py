"""The settings of an app: arguments, else environment variables, else defaults."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from headrace.core import bounds as limits
from headrace.core.address import without_password
from headrace.core.clock import Duration, read_duration, to_ms
from headrace.core.job.history_rules import (
    HistoryBounds,
    HistoryRules,
    Keep,
    QueueRetention,
    read_keep,
)
from headrace.core.payload.codecs import Codec, TaskCodecName, task_form
from headrace.core.payload.compression import Compression
from headrace.core.payload.offload import Offload
from headrace.core.payload.packing import PLAIN_PAYLOADS, PayloadOptions
from headrace.core.wrong_use import kind_of, with_article
from headrace.errors import ConfigError
from headrace.store.url import (
    DEFAULT_URL,
    CredentialProvider,
    check_confirmation,
    check_credential_provider,
    check_store_url,
)

R = TypeVar("R")
NO_PROVIDER: Any = object()
"""As `credential_provider`: none, whatever the variable says."""


class Settings:
    """What `Headrace(...)` is given, checked. An argument that is None is read from its variable,
    `HEADRACE_LEASE` and so on."""

    def __init__(
        self,
        url: str | None,
        *,
        namespace: str | None,
        lease: Duration | None,
        crash_limit: int | None,
        require_durable: bool | None,
        max_payload: int | None,
        events: bool | None,
        confirm_replicas: int | None,
        confirm_disk: bool | None,
        credential_provider: CredentialProvider | None,
        redact: Callable[[str, Any], Any] | str | None,
        actions_kept: Duration | None,
        keep_done: Keep | None,
        keep_dead: Keep | None,
        keep_events: int | None,
        keep_log: int | None,
        max_pending_per_key: int | None,
        metrics_prefix: str | None,
        unknown_task_after: Duration | None,
        max_reconnect: Duration | None,
        codec: TaskCodecName | Codec | None,
        compress: Compression | None,
        compress_threshold: int | None,
        offload: Offload | None,
        include: Sequence[str] | None,
    ) -> None:
        self.url = _setting("URL", url, str, DEFAULT_URL)
        if not isinstance(self.url, str):
            # Not the value itself: it may hold a password.
            raise ConfigError(f"the store's URL must be a text, not {kind_of(self.url)}")
        # A variable that was read from a file ends with a line break.
        self.url = self.url.strip()
        # An unknown one is refused here, not at the first send.
        check_store_url(self.url)
        self.namespace = limits.check_name(
            "namespace", _setting("NAMESPACE", namespace, str, "headrace")
        )
        self.lease = limits.check_seconds(
            "lease", _setting("LEASE", lease, float, limits.LEASE), least=0.05
        )
        self.crash_limit = limits.check_count(
            "crash_limit", _setting("CRASH_LIMIT", crash_limit, int, limits.CRASH_LIMIT)
        )
        self.max_payload = limits.check_count(
            "max_payload", _setting("MAX_PAYLOAD", max_payload, int, limits.MAX_PAYLOAD)
        )
        self.require_durable = limits.check_flag(
            "require_durable", _setting("REQUIRE_DURABLE", require_durable, _truth, False)
        )
        self.events = limits.check_flag("events", _setting("EVENTS", events, _truth, True))
        self.confirm_replicas = limits.check_count(
            "confirm_replicas", _setting("CONFIRM_REPLICAS", confirm_replicas, int, 0), least=0
        )
        """Replicas that have a job or an event before its send returns."""
        self.confirm_disk = limits.check_flag(
            "confirm_disk", _setting("CONFIRM_DISK", confirm_disk, _truth, False)
        )
        """Whether it is on the disk of the server, and of these replicas, by then."""
        check_confirmation(self.url, self.confirm_replicas, self.confirm_disk)
        named = partial(_imported, "CREDENTIAL_PROVIDER")
        provider = _setting("CREDENTIAL_PROVIDER", credential_provider, named, None)
        self.credential_provider = None if provider is NO_PROVIDER else provider
        """Gives connections to Redis their user and password, again and again."""
        check_credential_provider(self.url, self.credential_provider)
        self.redact = _redact(_setting("REDACT", redact, str, None))
        """Hides parts of arguments and results from people: see `app.admin.redacted`."""
        self.actions_kept = limits.check_seconds(
            "actions_kept",
            _setting("ACTIONS_KEPT", actions_kept, float, limits.ACTIONS_KEPT),
            least=1.0,
        )
        """Seconds for which the audit log keeps what people did."""
        self.metrics_prefix = _prefix(_setting("METRICS_PREFIX", metrics_prefix, str, "headrace"))
        """What the names of all metrics begin with."""
        given = _setting("KEEP_DONE", keep_done, read_keep, None)
        bounds = HistoryBounds() if given is None else HistoryBounds.of("keep_done", given)
        self.history_rules = HistoryRules(bounds)
        """What is kept of jobs that are done or cancelled, and of each queue besides."""
        retention = QueueRetention().changed(
            "",
            _setting("KEEP_DEAD", keep_dead, read_keep, None),
            _setting("KEEP_EVENTS", keep_events, int, None),
            _setting("KEEP_LOG", keep_log, int, None),
        )
        self.history_rules.queues.set_default(retention)
        pending = _setting("MAX_PENDING_PER_KEY", max_pending_per_key, int, None)
        self.max_pending_per_key = (
            None if pending is None else limits.check_count("max_pending_per_key", pending)
        )
        """How many jobs of one key may wait behind others of it, unless their queue says
        otherwise."""
        hour: Duration = limits.UNKNOWN_TASK_AFTER
        wait = _setting("UNKNOWN_TASK_AFTER", unknown_task_after, read_duration, hour)
        longest = _setting("MAX_RECONNECT", max_reconnect, read_duration, None)
        self.max_reconnect = (
            None if longest is None else to_ms("max_reconnect", longest, least=0.001) / 1000
        )
        """Seconds that a store may be away before workers end, and waits for results fail."""
        self.unknown_task_after = timedelta(milliseconds=to_ms("unknown_task_after", wait))
        """How long a job waits for a worker that knows its task, before it is dead."""
        self.payloads = _payloads(codec, compress, compress_threshold, offload)
        """The codec of tasks and topics that have none of their own, and so on."""
        self.modules = _modules("include", include)
        """Modules with tasks, which are imported when all tasks are needed."""

    @classmethod
    def of(cls, **given: Any) -> Settings:
        """These settings, checked; the others from their variables."""
        names = inspect.signature(Settings.__init__).parameters.keys() - {"self"}
        return Settings(**dict.fromkeys(names, None) | given)

    @property
    def shown_url(self) -> str:
        """The store's URL for people: without secrets, and with the whole path of a file."""
        shown = without_password(self.url)
        path = shown.removeprefix("sqlite:///")
        return shown if path in (shown, "") else f"sqlite:///{os.path.abspath(path)}"


def _setting(name: str, given: R | None, convert: Callable[[str], R], default: R) -> R:
    if given is not None:
        return given
    text = os.environ.get(f"HEADRACE_{name}")
    if not text:
        return default
    try:
        return convert(text)
    except ConfigError:
        raise
    except ValueError:
        kind = convert.__name__.strip("_").replace(
            "read_keep", "number of jobs, or a time: 2h, or both: 500,2h"
        )
        kind = {"int": "whole number", "float": "number"}.get(kind, kind)
        kind = kind.replace("read_duration", "time: 90 (seconds), 30m, 2h")
        raise ConfigError(f"HEADRACE_{name}={text!r} is not {with_article(kind)}") from None


def _payloads(
    codec: TaskCodecName | Codec | None,
    compress: Compression | None,
    threshold: int | None,
    offload: Offload | None,
) -> PayloadOptions:
    given: dict[str, Any] = {
        "codec": _setting("CODEC", codec, _named_codec, None),
        "compress": _setting("COMPRESS", compress, _text, None),
        "compress_threshold": _setting("COMPRESS_THRESHOLD", threshold, int, None),
        "offload": _setting("OFFLOAD", offload, partial(_imported, "OFFLOAD"), None),
    }
    payloads = PLAIN_PAYLOADS.changed("", given)
    task_form(payloads.codec)
    return payloads


def _text(text: str) -> Any:
    return text


def _named_codec(text: str) -> Any:
    return _imported("CODEC", text) if ":" in text else text


def _imported(name: str, text: str) -> Any:
    """What a variable names, as module:attribute."""
    module, _, path = text.partition(":")
    try:
        found: Any = import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"HEADRACE_{name}={text!r} cannot be imported as module:name: {error}"
        ) from None
    return found


def _redact(given: object) -> Callable[[str, Any], Any] | str | None:
    if isinstance(given, str) and not re.fullmatch(r"[\w.]+:[\w.]+", given):
        raise ConfigError(f"redact is {given!r}: write module:function, or give the function")
    if given is not None and not isinstance(given, str) and not callable(given):
        raise ConfigError(f"redact must be a function, or module:function, not {given!r}")
    found: Callable[[str, Any], Any] | str | None = given
    return found


def _modules(name: str, given: Any) -> tuple[str, ...]:
    if given is None:
        text = os.environ.get(f"HEADRACE_{name.upper()}", "")
        name, given = f"HEADRACE_{name.upper()}", [each.strip() for each in text.split(",") if each]
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{name} must be a list of modules, such as ['shop.mail'], not {given!r}")
    for module in given:
        if not isinstance(module, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", module):
            raise ConfigError(
                f"{name} names {module!r}: write a module as import does, such as shop.mail; a "
                "Tasks() is included by app.include(tasks)"
            )
    return tuple(dict.fromkeys(given))


def _prefix(given: object) -> str:
    if not isinstance(given, str) or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", given):
        raise ConfigError(
            f"metrics_prefix is {given!r}: it takes letters, digits and _, and no digit first"
        )
    return given


def _truth(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)
