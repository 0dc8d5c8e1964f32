"""Runs what is due in a test, by hand, with the parts of a worker."""
