"""`prestress bench soak`: long simulated operation with random faults, every command judged."""
