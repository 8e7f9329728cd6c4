"""Rules about autograd."""
