"""The live page: what runs in this process, shown by a server on loopback to a browser of the same user."""
