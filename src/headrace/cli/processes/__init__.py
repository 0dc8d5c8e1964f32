"""Commands that run until a signal ends them."""
