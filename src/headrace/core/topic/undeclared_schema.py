"""The events of topics that are declared elsewhere."""

from __future__ import annotations

from typing import Any

from headrace.core.job.envelope import Envelope
from headrace.core.topic.schema import Schema


class UndeclaredSchema(Schema):
    """Reads each event by the codec that its content type names, whatever its version; as `bytes`,
    the event is what travels."""

    def decode(self, envelope: Envelope) -> Any:
        if self.codec.event_type is bytes:
            return envelope.payload
        codec = self._codec_of(envelope.overrides.content)
        try:
            return codec.decode(envelope.payload)
        except Exception as error:
            raise self._misfit(codec, error) from None
