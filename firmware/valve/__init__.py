"""The valve application: eight proportional valves commanded over a serial line."""
