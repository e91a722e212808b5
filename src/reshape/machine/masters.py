"""Whether somebody listens at the address of a standalone cluster, asked before a session is made.

Spark itself tries for a minute and then speaks of a stopped context. Other clusters are asked by Spark alone: YARN's
address is not in the master's URL, and the way to Kubernetes may lead through a proxy.
"""

from __future__ import annotations

import re
import socket

from reshape.errors import ReshapeError

# A machine that is there takes or refuses a connection at once; this is for one that says nothing.
CONNECT_S = 10.0

_STANDALONE = re.compile(r"spark://(?P<places>[^/]+)")
_PLACE = re.compile(r"\[?(?P<host>.+?)\]?:(?P<port>\d{1,5})")


class MasterUnreachable(ReshapeError):
    """Nobody listens at the address of Spark's master; says what was tried."""


def reach_master(master: str, within_s: float = CONNECT_S) -> None:
    """Return when one of the masters in a ``spark://`` URL listens, or when this is another kind of master. Raises
    `MasterUnreachable`. URLs that make no sense are left to Spark, which says so."""
    named = _STANDALONE.fullmatch(master)
    places = [_PLACE.fullmatch(place) for place in named["places"].split(",")] if named else []
    failures = []
    for place in places:
        if place is None:
            return
        try:
            socket.create_connection((place["host"], int(place["port"])), within_s).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{place[0]}: {error}")
        else:
            return
    if failures:
        raise MasterUnreachable(
            f"no Spark master listens at {master} ({'; '.join(failures)}). Give the URL that the master's web page "
            "shows at its top, from a machine that can reach it, or start a master there (sbin/start-master.sh)"
        )
