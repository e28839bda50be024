"""The strut application: sample the IMU, send batches over MQTT."""
