"""Rules about several devices and the environment."""
