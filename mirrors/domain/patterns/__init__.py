"""Lists of Java patterns: run by RE2, and as sets of names that can be intersected."""
