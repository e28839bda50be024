"""A rolling strut robot as the daemon runs it: poses and motor reports in, plans from another process, motor speeds out."""
