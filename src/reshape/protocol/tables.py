"""Routing tables as plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from reshape.control.profile import MOST_WORKERS
from reshape.control.routing import RoutingTable, Shares

_FIELDS = {"version", "owners", "keys", "buckets", "two_choices"}
# Owners and mini-partitions are small numbers, keys are hashes; shares of this precision are beyond any need.
_MOST = 2**64 - 1


def pack_table(table: RoutingTable) -> dict[str, Any]:
    return {
        "version": table.version,
        "owners": _pack_rules(table.owners),
        "keys": _pack_rules(table.keys),
        "buckets": _pack_rules(table.buckets),
        "two_choices": table.two_choices,
    }


def unpack_table(packed: Mapping[str, Any]) -> RoutingTable:
    """Raises plain errors for what is no table: the codec names them."""
    if set(packed) != _FIELDS:
        raise ValueError(f"fields {sorted(packed)}")
    version, two_choices = packed["version"], packed["two_choices"]
    if type(version) is not int or not 0 <= version < 2**32 or type(two_choices) is not bool:
        raise ValueError(f"version {version!r} or two_choices {two_choices!r}")
    return RoutingTable(
        version,
        _unpack_rules(packed["owners"]),
        _unpack_rules(packed["keys"]),
        _unpack_rules(packed["buckets"]),
        two_choices,
    )


def _pack_rules(rules: Mapping[Any, Shares]) -> list[list[Any]]:
    return [
        [scope, [[worker, share.numerator, share.denominator] for worker, share in shares.parts]]
        for scope, shares in rules.items()
    ]


def _unpack_rules(packed: list[list[Any]]) -> dict[Any, Shares]:
    if type(packed) is not list:
        raise ValueError(f"rules in a {type(packed).__name__}")
    rules: dict[int, Shares] = {}
    for scope, parts in packed:
        numbers = [scope, *(number for part in parts for number in part)]
        if not all(type(number) is int and 0 <= number <= _MOST for number in numbers):
            raise ValueError(f"the rule of {scope!r} has a number that is not whole, or beyond all limits")
        if scope in rules or any(worker > MOST_WORKERS for worker, _, _ in parts):
            raise ValueError(f"a second rule of {scope}, or a worker that cannot be")
        rules[scope] = Shares(tuple((worker, Fraction(top, bottom)) for worker, top, bottom in parts))
    return rules
