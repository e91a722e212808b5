"""The `reshape` command."""
