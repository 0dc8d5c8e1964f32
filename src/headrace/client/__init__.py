"""What user code holds: tasks, jobs, contexts, and what carries them to the store."""
