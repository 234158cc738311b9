"""The best directions of two classes, and what they promise."""
