"""From a table to a decision model: what is at stake, which models, the file that keeps one."""
