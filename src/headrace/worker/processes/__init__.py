"""Worker processes, and processes that run one job."""
