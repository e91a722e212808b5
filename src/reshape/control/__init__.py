"""The skew brain: decides when a worker is skewed, who helps, what moves and how much. Pure: no I/O, no clock."""
