"""The life of a job: sent, delivered, settled, cancelled, taken over."""
