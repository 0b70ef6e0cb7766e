"""Whether what lies in a remote partition is what we wrote there, offset by offset."""
