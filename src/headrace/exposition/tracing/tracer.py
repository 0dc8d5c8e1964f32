"""The tracer that makes spans."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Tracer, TracerProvider

from headrace.errors import ConfigError

_SCHEMA = "https://opentelemetry.io/schemas/1.37.0"


class TracerSource:
    """The tracer of one provider, or of the global one as it is when the first span is made: it is
    often set after the app."""

    def __init__(self, provider: TracerProvider | None) -> None:
        given: object = provider
        if given is not None and not isinstance(given, TracerProvider):
            raise ConfigError(f"Tracing() takes a TracerProvider, not {given!r}")
        self._given = provider
        self._tracer: Tracer | None = None
        self.drops_unsampled = False
        """Whether spans below an unsampled one are always dropped; False while unknown."""

    @property
    def tracer(self) -> Tracer:
        if self._tracer is not None:
            return self._tracer
        provider = self._given or trace.get_tracer_provider()
        tracer = provider.get_tracer("headrace", schema_url=_SCHEMA)
        if not isinstance(provider, ProxyTracerProvider):
            self._tracer = tracer
            self.drops_unsampled = _drops_unsampled(tracer)
        return tracer


def _drops_unsampled(tracer: Tracer) -> bool:
    sampler = getattr(tracer, "sampler", None)
    # A subclass of an SDK sampler may decide otherwise.
    if type(sampler).__module__ != "opentelemetry.sdk.trace.sampling":
        return False
    description = str(sampler.get_description()) if sampler is not None else ""
    return (
        description.startswith("ParentBased{")
        and "remoteParentNotSampled:AlwaysOffSampler" in description
    )
