"""Expected costs of decisions, the bounds of them, and limits on rates."""
