"""What people see of a run: how far its result can be trusted, what was decided, and a log of both."""
