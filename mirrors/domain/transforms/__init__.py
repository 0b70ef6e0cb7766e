"""Rules that filter and change the records of a flow: their text, checks and translation."""
