"""What a test lets go wrong: its store, its workers."""
