"""Command line verbs that need the offboard extra."""
