"""The terminal view: queues, workers and errors, live, with actions on them."""

from headrace.top.view import Top

__all__ = ["Top"]
