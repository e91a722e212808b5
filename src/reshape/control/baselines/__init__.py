"""Other strategies behind the same protocol, for comparison."""
