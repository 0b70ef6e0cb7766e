"""Tests of the pages: what each role sees, what a person may type, what breaks and how it reads."""
