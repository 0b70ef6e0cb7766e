"""Tests of the pages: each role's view, what a person may enter, and how errors read."""
