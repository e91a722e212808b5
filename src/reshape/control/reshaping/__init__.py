"""Reshape itself: the skew test, mitigations and how much moves."""
