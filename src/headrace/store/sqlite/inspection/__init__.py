"""What can be read of queues and jobs: listings, counts, events, progress and logs."""
