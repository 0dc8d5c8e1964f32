"""Count what a process does: totals, its health now, the files that share them, and sinks."""
