"""Routing tables and key sets as plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from reshape.control.routing import RoutingTable, Shares
from reshape.operators.base import Either, HashedKeys, KeySet, MiniPartitions


def pack_table(table: RoutingTable) -> dict[str, Any]:
    return {
        "version": table.version,
        "owners": _pack_rules(table.owners),
        "keys": _pack_rules(table.keys),
        "buckets": _pack_rules(table.buckets),
        "two_choices": table.two_choices,
    }


def unpack_table(packed: Mapping[str, Any]) -> RoutingTable:
    return RoutingTable(
        int(packed["version"]),
        _unpack_rules(packed["owners"]),
        _unpack_rules(packed["keys"]),
        _unpack_rules(packed["buckets"]),
        bool(packed["two_choices"]),
    )


def key_set(keys: Iterable[int], buckets: Iterable[int], workers: int, per_worker: int) -> KeySet:
    """Keys by their hashes, and all keys of some mini-partitions."""
    named = HashedKeys(frozenset(keys))
    parts = frozenset(buckets)
    return Either(named, MiniPartitions(parts, workers, per_worker)) if parts else named


def _pack_rules(rules: Mapping[Any, Shares]) -> list[list[Any]]:
    return [
        [scope, [[worker, share.numerator, share.denominator] for worker, share in shares.parts]]
        for scope, shares in rules.items()
    ]


def _unpack_rules(packed: list[list[Any]]) -> dict[Any, Shares]:
    return {
        int(scope): Shares(tuple((int(worker), Fraction(top, bottom)) for worker, top, bottom in parts))
        for scope, parts in packed
    }
