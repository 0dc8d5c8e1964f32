"""What user code holds: tasks, jobs, schedules, topics; and what carries them to the store."""
