"""Rules about measurement."""
