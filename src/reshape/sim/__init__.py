"""A cluster in virtual time: the brain's other body.

Groups of rows move through sources, routers, links, queues and workers as whole numbers, so a run costs the
same for a thousand rows and for 10^11, and not one row is lost or doubled.
"""
