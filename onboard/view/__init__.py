"""The live view: a page on this computer that shows a running robot, and stops or arms it."""
