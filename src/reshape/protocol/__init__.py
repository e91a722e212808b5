"""What driver and tasks say to each other."""
