"""Runs one function in a test as a worker would."""
