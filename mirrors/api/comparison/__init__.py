"""REST of comparisons and conflict reports."""
