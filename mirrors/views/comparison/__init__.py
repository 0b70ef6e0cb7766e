"""Pages of comparisons and conflict reports."""
