"""What carries rows between workers, and decides which worker gets which row."""
