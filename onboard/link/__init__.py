"""Everything between the daemon and its boards: wire format, serial framing, sessions and board clocks."""
