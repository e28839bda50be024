"""Runs first after every reset: nothing that can fail, so that main.py always gets its turn."""

import gc

gc.collect()
