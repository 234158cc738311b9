"""The truncated likelihood on functions that a kernel spans."""
