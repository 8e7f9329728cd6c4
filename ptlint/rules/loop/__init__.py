"""Rules about the loop's own Python."""
