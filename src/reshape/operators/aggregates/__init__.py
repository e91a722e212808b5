"""The aggregates of a group-by. A file here says all there is to say about its aggregates: how they are described in a
plan, what Spark calls them (`registry.py` finds them by that), and how they are computed."""
