"""Virtual boards: the firmware on the MicroPython interpreter, its registers in a small shared file."""
