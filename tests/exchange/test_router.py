from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reshape.control.profile import MOST_WORKERS
from reshape.control.routing import RoutingTable, Shares
from reshape.exchange.errors import ExchangeError
from reshape.exchange.router import (
    LEAST_BYTES_PER_MESSAGE,
    LEAST_ROWS_PER_MESSAGE,
    Hashes,
    HashPartitioner,
    Router,
    Workers,
    deal,
    two_choices,
)
from reshape.exchange.wire import Envelope, Kind, Slice, offsets
from reshape.kernels.hashing import hash_rows, mini_partitions, owners

from ..shares import worker_at

BUCKETS_PER_WORKER = 2


class Hosts:
    """What the hosts get: messages, cut into what each worker gets."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self.hosts = hosts
        self.messages: list[tuple[int, pa.RecordBatch, Envelope]] = []

    def send(self, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        assert batch.num_rows == envelope.rows > 0
        assert envelope.kind is Kind.ROWS
        assert all(part.rows > 0 and self.hosts[part.worker] == host for part in envelope.slices)
        assert Envelope.unpack(envelope.pack()) == envelope
        self.messages.append((host, batch, envelope))

    def slices(self) -> list[tuple[Slice, pa.RecordBatch]]:
        return [
            (part, batch.slice(start, part.rows))
            for _, batch, envelope in self.messages
            for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True)
        ]

    def rows(self) -> dict[int, list[tuple[int, dict[str, Any]]]]:
        """The rows of each worker in the order in which they came, with their owners."""
        got: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for part, batch in self.slices():
            got[part.worker] += [(part.owner, row) for row in batch.to_pylist()]
        return got


def spread(workers: int, hosts: int) -> list[int]:
    return [worker * hosts // workers for worker in range(workers)]


def keyed(keys: Any, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(keys), "n": pa.array(range(first, first + len(keys)), pa.int64())})


def router_to(hosts: Hosts, columns: Sequence[int] = (0,), table: RoutingTable | None = None) -> Router:
    partitioner = HashPartitioner(columns, len(hosts.hosts))
    return Router(partitioner, hosts.hosts, hosts.send, table=table, buckets_per_worker=BUCKETS_PER_WORKER)


def check_sequences(hosts: Hosts) -> None:
    by_host: dict[int, list[int]] = defaultdict(list)
    for host, _, envelope in hosts.messages:
        by_host[host].append(envelope.sequence)
    for sequence in by_host.values():
        assert sequence == list(range(len(sequence)))


@pytest.mark.parametrize(("workers", "hosts"), [(1, 1), (4, 2), (7, 3), (48, 2), (300, 7), (1_000, 1)])
@pytest.mark.parametrize("sizes", [[20_000], [5_000, 1, 70_000], [100] * 40])
def test_without_rules_rows_go_to_their_owners(workers: int, hosts: int, sizes: list[int]) -> None:
    generator = np.random.default_rng(workers)
    got = Hosts(spread(workers, hosts))
    router = router_to(got)
    keys: list[Any] = []
    for size in sizes:
        some = generator.zipf(1.5, size).astype(np.int64)
        router.route(keyed(some, len(keys)))
        keys += some.tolist()
    router.flush()
    owner = owners(hash_rows([pa.array(keys)]), workers)
    came: dict[int, list[int]] = defaultdict(list)
    for part, batch in got.slices():
        assert part.worker == part.owner
        came[part.worker] += batch.column(1).to_pylist()
        assert batch.column(0).to_pylist() == [keys[n] for n in batch.column(1).to_pylist()]
    # A worker gets its rows once and in the order in which they came, also across batches.
    for worker in range(workers):
        assert came[worker] == np.flatnonzero(owner == worker).tolist()
    counts = np.bincount(owner, minlength=workers)
    assert router.routed.tolist() == router.sent.tolist() == counts.tolist()
    check_sequences(got)


def share_lists(workers: int) -> st.SearchStrategy[Shares]:
    def build(chosen: list[int], weights: list[int]) -> Shares:
        weights = weights[: len(chosen)]
        return Shares(tuple((w, Fraction(part, sum(weights))) for w, part in zip(chosen, weights, strict=True)))

    return st.builds(
        build,
        st.lists(st.integers(0, workers - 1), min_size=1, max_size=min(4, workers), unique=True),
        st.lists(st.integers(1, 50), min_size=4, max_size=4),
    )


@given(share_lists(9), st.integers(0, 10**12), st.integers(0, 300))
def test_deal_agrees_with_worker_at(shares: Shares, start: int, rows: int) -> None:
    assert deal(shares, start, rows).tolist() == [worker_at(shares, start + step) for step in range(rows)]


@given(
    st.lists(st.fractions(Fraction(1, 10**12), 1, max_denominator=10**12), min_size=2, max_size=4),
    st.integers(0, 10**15),
)
def test_deal_is_exact_for_any_fraction(weights: list[Fraction], start: int) -> None:
    """Products of large numerators and positions do not fit 64 bits; they must not wrap around."""
    assume(sum(weights) > 0)
    shares = Shares(tuple((worker, weight / sum(weights)) for worker, weight in enumerate(weights)))
    assert deal(shares, start, 40).tolist() == [worker_at(shares, start + step) for step in range(40)]


def test_shares_are_interleaved_across_batches() -> None:
    """9 of 26 means never 9 in a row, wherever batches end."""
    got = Hosts([0, 1])
    shares = Shares.of(0, {1: Fraction(9, 26)})
    key = next(k for k in range(100) if owners(hash_rows([pa.array([k])]), 2)[0] == 0)
    router = router_to(got, table=RoutingTable(1, {0: shares}))
    for first in range(0, 2_600, 7):
        router.route(keyed([key] * 7, first))
    router.flush()
    workers = {row["n"]: worker for worker, rows in got.rows().items() for _, row in rows}
    assert [workers[n] for n in range(2_600)] == [worker_at(shares, n) for n in range(2_600)]


keys = st.integers(0, 30)


@st.composite
def tables(draw: st.DrawFn, workers: int, version: int) -> RoutingTable:
    hashes = hash_rows([pa.array(range(31), pa.int64())]).tolist()
    shares = share_lists(workers)
    return RoutingTable(
        version,
        draw(st.dictionaries(st.integers(0, workers - 1), shares, max_size=3)),
        draw(st.dictionaries(st.sampled_from(hashes), shares, max_size=5)),
        draw(st.dictionaries(st.integers(0, workers * BUCKETS_PER_WORKER - 1), shares, max_size=3)),
    )


class Oracle:
    """The routing of single rows, by the words of the routing table."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.table = RoutingTable()
        self.counts: Counter[tuple[str, int]] = Counter()

    def use(self, table: RoutingTable) -> None:
        self.table = table
        self.counts.clear()

    def route(self, key: int) -> tuple[int, int]:
        """Worker and owner of the next row."""
        hashes = hash_rows([pa.array([key], pa.int64())])
        owner = int(owners(hashes, self.workers)[0])
        bucket = int(mini_partitions(hashes, self.workers, BUCKETS_PER_WORKER)[0])
        shares = self.table.shares(int(hashes[0]), bucket, owner)
        if shares is None:
            return owner, owner
        scope = ("owner", owner)
        if int(hashes[0]) in self.table.keys:
            scope = ("key", int(hashes[0]))
        elif bucket in self.table.buckets:
            scope = ("bucket", bucket)
        position = self.counts[scope]
        self.counts[scope] += 1
        return worker_at(shares, position), owner


@settings(max_examples=120)
@given(st.data(), st.sampled_from([(1, 1), (3, 1), (6, 2), (257, 3)]))
def test_any_table_routes_each_row_as_it_says(data: st.DataObject, size: tuple[int, int]) -> None:
    workers = size[0]
    got = Hosts(spread(*size))
    router, oracle = router_to(got), Oracle(workers)
    wanted: dict[int, tuple[int, int, int, int]] = {}
    for version in range(1, data.draw(st.integers(2, 4))):
        table = data.draw(tables(workers, version))
        assert router.use(table)
        oracle.use(table)
        for some in data.draw(st.lists(st.lists(keys, max_size=40), max_size=4)):
            first = len(wanted)
            router.route(pa.record_batch({"key": pa.array(some, pa.int64()), "n": np.arange(first, first + len(some))}))
            for n, key in enumerate(some, first):
                wanted[n] = (*oracle.route(key), key, version)
    router.flush()
    came: dict[int, tuple[int, int, int, int]] = {}
    order: dict[tuple[int, int], list[int]] = defaultdict(list)
    for _, batch, envelope in got.messages:
        for part, start in zip(envelope.slices, offsets(envelope.slices), strict=True):
            for row in batch.slice(start, part.rows).to_pylist():
                assert row["n"] not in came
                came[row["n"]] = (part.worker, part.owner, row["key"], envelope.version)
                order[part.worker, row["key"]].append(row["n"])
    assert came == wanted
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert router.sent.tolist() == [Counter(w for w, _, _, _ in wanted.values())[w] for w in range(workers)]
    assert router.routed.tolist() == [Counter(o for _, o, _, _ in wanted.values())[w] for w in range(workers)]
    check_sequences(got)


@pytest.mark.parametrize("workers", [6, 256, 257, 2_000])
def test_large_batches_with_rules(workers: int) -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(0, 5_000, 70_000)
    hashes = hash_rows([pa.array(values)])
    owner = owners(hashes, workers)
    hot: dict[Hashable, Shares] = {int(hashes[n]): Shares.whole(n % workers) for n in range(1_000)}
    halves = Shares.of(2, {workers - 1: Fraction(1, 3), 0: Fraction(1, 3)})
    got = Hosts(spread(workers, 3))
    router = router_to(got, table=RoutingTable(4, {2: halves}, hot))
    router.route(keyed(values))
    router.flush()
    came = np.full(len(values), -1)
    for part, batch in got.slices():
        numbers = batch.column(1).to_numpy()
        assert (np.diff(numbers) > 0).all()
        assert (owner[numbers] == part.owner).all()
        assert (came[numbers] == -1).all()
        came[numbers] = part.worker
    keyed_rows = np.isin(hashes, np.array(list(hot), dtype=np.uint64))
    assert came[keyed_rows].tolist() == [hot[int(h)].workers[0] for h in hashes[keyed_rows]]
    shared = ~keyed_rows & (owner == 2)
    assert came[shared].tolist() == [worker_at(halves, n) for n in range(int(shared.sum()))]
    rest = ~keyed_rows & (owner != 2)
    assert (came[rest] == owner[rest]).all()
    assert router.sent.tolist() == np.bincount(came, minlength=workers).tolist()
    assert router.routed.tolist() == np.bincount(owner, minlength=workers).tolist()


def test_equal_shares_of_two_rules_are_counted_apart() -> None:
    """With one count for both, each of two alternating keys would meet one worker only."""
    first, second = (int(h) for h in hash_rows([pa.array([1, 2])]))
    halves = Shares.of(0, {1: Fraction(1, 2)})
    got = Hosts([0, 0])
    router = router_to(got, table=RoutingTable(1, {}, {first: halves, second: halves}))
    for n in range(0, 40, 2):
        router.route(keyed([1, 2], n))
    router.flush()
    seen = Counter((worker, row["key"]) for worker, rows in got.rows().items() for _, row in rows)
    assert seen == {(0, 1): 10, (1, 1): 10, (0, 2): 10, (1, 2): 10}


class ByValue:
    """An owner for each row and no hash, as a range partitioner has it."""

    def partition(self, batch: pa.RecordBatch) -> tuple[Workers, Hashes | None]:
        return batch.column(0).to_numpy().astype(np.uint16), None


def test_rows_without_hashes_follow_owner_rules_only() -> None:
    got = Hosts([0, 0, 1])
    rules = {0: Shares.whole(2)}
    table = RoutingTable(1, rules, {0: Shares.whole(1)}, dict.fromkeys(range(6), Shares.whole(1)))
    router = Router(ByValue(), got.hosts, got.send, table=table, buckets_per_worker=2, combined=True)
    router.route(keyed([2, 0, 1, 0]))
    router.flush()
    assert [(host, e.slices, e.combined) for host, _, e in got.messages] == [
        (0, (Slice(1, 1, 1),), True),
        (1, (Slice(2, 0, 2), Slice(2, 2, 1)), True),
    ]
    assert got.messages[1][1].column(1).to_pylist() == [1, 3, 0]


def test_tables_change_between_batches_and_only_forwards() -> None:
    got = Hosts([0, 1])
    router = router_to(got)
    router.route(keyed(range(10)))
    assert got.messages == []
    assert router.use(RoutingTable(3, {0: Shares.whole(1)}))
    # What waited was routed by the old table and leaves under its version.
    assert {envelope.version for _, _, envelope in got.messages} == {0}
    assert sum(batch.num_rows for _, batch, _ in got.messages) == 10
    del got.messages[:]
    for version in (3, 2, 0):
        assert not router.use(RoutingTable(version, {1: Shares.whole(0)}))
    assert router.table.version == 3
    router.route(keyed(range(10)))
    router.flush()
    assert [(host, envelope.version) for host, _, envelope in got.messages] == [(1, 3)]
    assert router.use(RoutingTable(4))
    del got.messages[:]
    router.route(keyed(range(10)))
    router.flush()
    assert {(host, envelope.version) for host, _, envelope in got.messages} == {(0, 4), (1, 4)}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (RoutingTable(5, {0: Shares.whole(2)}), "to worker 2, but there are 2 workers"),
        (RoutingTable(5, {0: Shares.whole(-1)}), "to worker -1, but there are 2 workers"),
        (RoutingTable(5, {2: Shares.whole(1)}), "rule for number 2"),
        (RoutingTable(5, {}, {}, {4: Shares.whole(1)}), "rule for number 4"),
        (RoutingTable(5, {}, {"a key": Shares.whole(1)}), "64-bit hash, but got 'a key'"),
        (RoutingTable(5, {}, {-1: Shares.whole(1)}), "64-bit hash, but got -1"),
    ],
)
def test_table_that_cannot_be_followed_is_refused_at_once(table: RoutingTable, message: str) -> None:
    got = Hosts([0, 1])
    router = router_to(got)
    with pytest.raises(ExchangeError, match=message):
        router.use(table)
    assert router.table.version == 0
    router.route(keyed(range(10)))
    router.flush()
    assert router.sent.tolist() == router.routed.tolist()


def test_small_batches_are_gathered() -> None:
    got = Hosts([0, 0, 0])
    router = router_to(got)
    for first in range(0, LEAST_ROWS_PER_MESSAGE - 1):
        router.route(keyed([first % 50], first))
    assert got.messages == []
    router.route(keyed([7], LEAST_ROWS_PER_MESSAGE - 1))
    assert [batch.num_rows for _, batch, _ in got.messages] == [LEAST_ROWS_PER_MESSAGE]
    # One slice per worker, not one per batch: each costs the receiver something.
    assert [part.worker for part in got.messages[0][2].slices] == [0, 1, 2]
    for rows in got.rows().values():
        assert [row["n"] for _, row in rows] == sorted(row["n"] for _, row in rows)
    router.route(keyed([1], 9_999))
    assert len(got.messages) == 1
    router.flush()
    assert [batch.num_rows for _, batch, _ in got.messages] == [LEAST_ROWS_PER_MESSAGE, 1]
    router.flush()
    assert len(got.messages) == 2
    check_sequences(got)


def test_wide_rows_do_not_wait_for_many() -> None:
    got = Hosts([0])
    router = router_to(got, columns=(1,))
    text = "x" * 10_000
    for n in range(LEAST_BYTES_PER_MESSAGE // 10_000 + 1):
        assert got.messages == []
        router.route(keyed([text], n))
    assert len(got.messages) == 1


def test_few_waiting_rows_do_not_keep_large_batches() -> None:
    """A row for a host that gets hardly any waits long; its batch of a megabyte must be free."""
    got = Hosts([0, 1])
    of_host = [next(k for k in range(100) if owners(hash_rows([pa.array([k])]), 2)[0] == host) for host in (0, 1)]
    values = np.full(65_536, of_host[0])
    values[100] = of_host[1]
    router = router_to(got)
    before = pa.total_allocated_bytes()
    for _ in range(30):
        router.route(keyed(values))
        assert all(host == 0 for host, _, _ in got.messages)
        del got.messages[:]
    assert pa.total_allocated_bytes() - before < 1_000_000
    router.flush()
    assert [(host, batch.column(1).to_pylist()) for host, batch, _ in got.messages] == [(1, [100] * 30)]


def test_empty_batches_are_nothing() -> None:
    got = Hosts([0, 1])
    router = router_to(got, table=RoutingTable(1, {0: Shares.whole(1)}))
    router.route(keyed([1, 2]).slice(0, 0))
    router.flush()
    assert got.messages == []
    assert router.sent.tolist() == [0, 0]


def test_all_kinds_of_columns() -> None:
    """Strings, nulls, nested values and dictionaries that differ from batch to batch, as keys and as payload."""
    got = Hosts([0, 0, 1])
    word = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("word", word),
            ("nested", pa.list_(pa.int64())),
            ("nothing", pa.null()),
            ("n", pa.int64()),
        ]
    )
    router = router_to(got, columns=(0, 1))
    rows = []
    for first in range(0, 60, 6):
        words = ["a", None, f"only {first}", "zoë", "", "a"]
        batch = pa.record_batch(
            [
                pa.array([None, "", "key", f"key {first}", "zoë" * 50, None]),
                pa.array(words).dictionary_encode().cast(word),
                pa.array([[1], None, [], [1, None], [2], [3]], pa.list_(pa.int64())),
                pa.nulls(6),
                pa.array(range(first, first + 6)),
            ],
            schema=schema,
        )
        part = batch.slice(1) if first % 4 else batch
        rows += part.to_pylist()
        router.route(part)
    router.flush()
    came = sorted((row for rows in got.rows().values() for _, row in rows), key=lambda row: row["n"])
    assert came == rows
    by_key: dict[tuple[Any, Any], set[int]] = defaultdict(set)
    for worker, some in got.rows().items():
        for _, row in some:
            by_key[row["key"], row["word"]].add(worker)
    assert all(len(workers) == 1 for workers in by_key.values())


def test_rows_are_counted_before_they_are_sent() -> None:
    """A send may wait for a slow host; the rows it holds are part of the workload meanwhile."""
    seen: list[int] = []
    partitioner = HashPartitioner((0,), 2)
    router = Router(partitioner, [0, 0], lambda host, batch, envelope: seen.append(int(router.sent.sum())))
    router.route(keyed(range(10_000)))
    assert seen == [10_000]


def test_most_workers() -> None:
    hosts = [0] * MOST_WORKERS
    got = Hosts(hosts)
    router = router_to(got, table=RoutingTable(1, {5: Shares.of(5, {MOST_WORKERS - 1: Fraction(1, 2)})}))
    values = np.arange(300_000)
    router.route(keyed(values[:3_000]))
    router.route(keyed(values[3_000:], 3_000))
    router.flush()
    owner = owners(hash_rows([pa.array(values)]), MOST_WORKERS)
    assert router.routed.tolist() == np.bincount(owner, minlength=MOST_WORKERS).tolist()
    ((_, batch, envelope),) = got.messages
    numbers = batch.column(1).to_numpy()
    assert sorted(numbers) == values.tolist()
    assert (
        owner[numbers].tolist()
        == np.repeat([p.owner for p in envelope.slices], [p.rows for p in envelope.slices]).tolist()
    )
    with pytest.raises(ExchangeError, match="65,536 workers are more than the 65,535"):
        router_to(Hosts([0] * (MOST_WORKERS + 1)))


def choices_of(hashes: Hashes, workers: int) -> tuple[Workers, Workers]:
    """The two workers that each key may go to: a worker without any load, seen twice."""
    owner = owners(hashes, workers)
    busy = np.zeros(workers, dtype=np.int64)
    others = owner.copy()
    for place in range(len(hashes)):
        busy[:] = 0
        busy[owner[place]] = 10**6
        others[place] = two_choices(owner[place : place + 1], hashes[place : place + 1], busy)[0]
    return owner, others


@pytest.mark.parametrize("workers", [2, 3, 8, 300])
def test_a_key_has_two_workers_at_the_most(workers: int) -> None:
    rng = np.random.default_rng(workers)
    keys = rng.integers(0, 2**64, 50, dtype=np.uint64)
    owner, other = choices_of(keys, workers)
    assert (owner != other).all()
    allowed = {int(key): {int(a), int(b)} for key, a, b in zip(keys, owner, other, strict=True)}
    sent = np.zeros(workers, dtype=np.int64)
    for _ in range(20):
        rows = rng.choice(keys, 500)
        chosen = two_choices(owners(rows, workers), rows, sent)
        assert all(int(worker) in allowed[int(key)] for key, worker in zip(rows, chosen, strict=True))
        sent += np.bincount(chosen, minlength=workers)


@pytest.mark.parametrize("batch_rows", [1, 7, 1_000])
def test_two_choices_bring_a_pair_level(batch_rows: int) -> None:
    """One heavy key: its two workers have the same load at the end, whichever had more at first."""
    key = np.array([2**40 * 3 + 5], dtype=np.uint64)
    (first,), (second,) = choices_of(key, 6)
    sent = np.zeros(6, dtype=np.int64)
    sent[first] = 400
    rows = 0
    while rows < 3_000:
        hashes = np.repeat(key, batch_rows)
        chosen = two_choices(owners(hashes, 6), hashes, sent)
        sent += np.bincount(chosen, minlength=6)
        rows += batch_rows
    assert sent.sum() == 400 + rows
    assert abs(int(sent[first]) - int(sent[second])) <= 1
    assert sent[first] + sent[second] == sent.sum()


def test_two_choices_interleave_within_a_batch() -> None:
    key = np.array([2**40 * 3 + 5], dtype=np.uint64)
    hashes = np.repeat(key, 1_000)
    chosen = two_choices(owners(hashes, 6), hashes, np.zeros(6, dtype=np.int64))
    assert (chosen[::2] != chosen[1::2]).all()


def test_one_worker_has_no_choice() -> None:
    hashes = np.arange(10, dtype=np.uint64)
    assert two_choices(owners(hashes, 1), hashes, np.zeros(1, dtype=np.int64)).tolist() == [0] * 10


def test_a_router_with_two_choices_levels_by_its_own_counts() -> None:
    hosts = Hosts(spread(4, 2))
    router = router_to(hosts, table=RoutingTable(1, two_choices=True))
    for first in range(0, 4_000, 100):
        router.route(keyed([7] * 100, first))
    router.flush()
    loads = sorted(router.sent.tolist())
    assert loads == [0, 0, 2_000, 2_000]
    assert sum(router.routed.tolist()) == 4_000
    assert max(router.routed.tolist()) == 4_000, "rows are counted for their owner before redirection"
    assert sorted(row["n"] for rows in hosts.rows().values() for _, row in rows) == list(range(4_000))
