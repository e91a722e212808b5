from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from reshape.control.routing import RoutingTable, Shares
from reshape.sim.router import SimulatedRouter


def test_without_rules_a_row_goes_to_its_owner() -> None:
    router = SimulatedRouter(4, 16, RoutingTable())
    assert {worker: chunk.items for worker, chunk in router.route([(1, 5), (5, 2), (2, 1)]).items()} == {
        1: [(1, 5), (5, 2)],
        2: [(2, 1)],
    }
    assert router.routed == router.received == [0, 7, 1, 0]


def test_nine_of_twenty_six_are_spread_evenly() -> None:
    table = RoutingTable(1, owners={0: Shares.of(0, {1: Fraction(9, 26)})})
    router = SimulatedRouter(2, 16, table)
    for row in range(1, 27):
        router.route([(0, 1)])
        assert abs(router.received[1] - row * 9 / 26) < 1
    assert router.received == [17, 9]
    assert router.routed == [26, 0]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.lists(st.integers(1, 200), max_size=10))
def test_rows_are_dealt_as_the_brain_means_it(weights: list[int], groups: list[int]) -> None:
    shares = Shares(tuple((worker, Fraction(weight, sum(weights))) for worker, weight in enumerate(weights)))
    router = SimulatedRouter(8, 16, RoutingTable(1, owners={0: shares}))
    start = 0
    for rows in groups:
        chunks = router.route([(0, rows)])
        assert {w: c.rows for w, c in chunks.items()} == {w: n for w, n in shares.deal(start, rows) if n}
        start += rows


def test_a_rare_key_meets_every_worker_of_its_rule() -> None:
    """Two keys, one row each per group: with one position for the rule, each would have stayed with one worker."""
    router = SimulatedRouter(2, 16, RoutingTable(1, owners={0: Shares.of(0, {1: Fraction(1, 2)})}))
    seen: dict[int, set[int]] = {0: set(), 2: set()}
    for _ in range(4):
        for worker, chunk in router.route([(0, 1), (2, 1)]).items():
            for key, _rows in chunk.items:
                seen[key].add(worker)
    assert seen == {0: {0, 1}, 2: {0, 1}}


def test_old_tables_are_never_used_again() -> None:
    router = SimulatedRouter(2, 16, RoutingTable(3))
    assert not router.use(RoutingTable(2))
    assert router.use(RoutingTable(4))
    assert router.table.version == 4


def test_a_new_table_holds_for_keys_that_were_seen_before() -> None:
    router = SimulatedRouter(2, 16, RoutingTable(1, owners={0: Shares.whole(1)}))
    router.route([(0, 10)])
    router.use(RoutingTable(2, owners={0: Shares.of(0, {1: Fraction(1, 5)})}))
    router.route([(0, 10)])
    assert router.received == [8, 12]


def test_a_key_rule_beats_its_bucket_beats_its_owner() -> None:
    table = RoutingTable(1, owners={1: Shares.whole(0)}, buckets={5: Shares.whole(2)}, keys={5: Shares.whole(3)})
    router = SimulatedRouter(4, 2, table)
    router.route([(5, 1), (13, 1), (1, 1)])  # 13 is in bucket 5 as well
    assert router.received == [1, 0, 1, 1]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 1000)), max_size=30), st.integers(2, 9))
def test_two_choices_level_what_they_can(group: list[tuple[int, int]], workers: int) -> None:
    router = SimulatedRouter(workers, 16, RoutingTable(1, two_choices=True))
    router.route(group)
    assert sum(router.received) == sum(rows for _, rows in group) == sum(router.routed)
    assert all(router.second_choice(key) != key % workers for key in range(100))


def test_two_choices_of_one_hot_key_end_level() -> None:
    router = SimulatedRouter(8, 16, RoutingTable(1, two_choices=True))
    for _ in range(10):
        router.route([(3, 101)])
    loads = sorted(router.received)[-2:]
    assert sum(loads) == 1010
    assert loads[1] - loads[0] <= 1
