"""Rules about host, device and synchronisation."""
