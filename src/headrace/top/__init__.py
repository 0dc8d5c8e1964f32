"""The terminal view: live queues, workers and errors, and what one can do about them."""

from headrace.top.view import Top

__all__ = ["Top"]
