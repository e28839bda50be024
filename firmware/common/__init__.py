"""What every board shares: wire format, link, configuration, watchdog, actuator ownership."""
