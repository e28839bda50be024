"""Real boards in the loop: flashed struts on USB that take their samples from the plant instead of their sensor."""
