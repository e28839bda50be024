"""The motor application: a strut that also winds cables, commanded over MQTT."""
