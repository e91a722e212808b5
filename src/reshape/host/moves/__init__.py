"""State and waiting rows of a host's workers on the move."""
