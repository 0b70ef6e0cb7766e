"""Texts written for MirrorMaker, and what each of their lines becomes here."""
