"""What was sent in a test, and what the test asks about it."""
