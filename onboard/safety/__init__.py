"""Safety: a supervisor that is a table, a monitor of its condition bits, and the governor, the only way to an actuator."""
