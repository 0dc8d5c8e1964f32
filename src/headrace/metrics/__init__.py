"""Count what a worker process does: totals, its health now, and the files that share them."""
