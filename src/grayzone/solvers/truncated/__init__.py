"""The truncated likelihood on linear functions: one step strategy a file."""
