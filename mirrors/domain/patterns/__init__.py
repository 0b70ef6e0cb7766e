"""Lists of Java patterns: matched by RE2, and as sets of names that can be intersected."""
