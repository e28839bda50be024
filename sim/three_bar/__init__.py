"""The three-bar tensegrity as a MuJoCo plant: robot file, courses, motors, gaits, pictures."""
