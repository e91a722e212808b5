"""What runs in the task of a host."""
