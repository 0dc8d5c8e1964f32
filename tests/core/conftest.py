"""How hypothesis runs here."""

from __future__ import annotations

from hypothesis import settings

# No deadline per example: on a busy machine a slow one is not a wrong one.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
