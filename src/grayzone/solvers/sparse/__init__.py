"""Penalties that select: l1 and the elastic net on features, or on the terms of an expansion."""
