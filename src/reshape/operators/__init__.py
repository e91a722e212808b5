"""The skew-prone operators: Arrow in, Arrow out, no I/O. `base` says what they have in common."""
