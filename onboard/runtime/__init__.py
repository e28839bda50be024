"""Runtime: fixed-rate loops, realtime options, the control socket and the graph that wires a robot."""
