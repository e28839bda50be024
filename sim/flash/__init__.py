"""Virtual boards on USB: the MicroPython prompt of a jailed board behind a pseudo terminal."""
