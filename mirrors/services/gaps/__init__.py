"""Data loss that a person decides on: lost ranges, foreign records, deleted partitions."""
