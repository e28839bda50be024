"""What can go wrong around a daemon, on purpose: cables and networks that disturb."""
