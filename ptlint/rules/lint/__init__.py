"""Rules about the lint itself."""
