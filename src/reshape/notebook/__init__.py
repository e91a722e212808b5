"""A query in a notebook: live while it runs, plain HTML when it is saved."""
