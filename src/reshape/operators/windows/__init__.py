"""Functions of windows, each family in one file, and the frames that they look at."""
