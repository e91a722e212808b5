"""Kernels on Arrow arrays: hashes, keys, orders. No state, no I/O."""
