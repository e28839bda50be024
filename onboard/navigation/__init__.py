"""A rolling strut robot as the daemon runs it: poses and motor reports in, plans from a process of their own, motor speeds out."""
