"""The life of a job: insert, claim, settle, complete or requeue, and prune."""
