"""Plants, virtual boards and faults: everything that stands in for a robot on a desk."""
