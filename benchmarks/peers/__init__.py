"""Side by side with other libraries, at the same accuracy."""
