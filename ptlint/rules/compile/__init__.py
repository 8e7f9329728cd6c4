"""Rules about compilation."""
