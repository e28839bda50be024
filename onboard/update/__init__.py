"""New firmware for boards over the air: signed manifests, one board at a time, only while the robot is disarmed."""
