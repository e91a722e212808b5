"""What holds for every operator, checked on all that there are; and how aggregates are found."""

import pickle
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import reshape
from reshape.kernels.hashing import hash_rows
from reshape.operators import specs
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.aggregates.registry import registered
from reshape.operators.base import Operator
from reshape.operators.group_by import GroupBySpec
from reshape.operators.spec import Spec

from .samples import batches_of, feed, over_the_wire, rows_of


def rows(count: int, seed: int, lowest: int) -> pa.Table:
    """A hot key, nulls, and many keys that only one half of the rows has; numbers that are no key's."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(count) < 0.3, 50, rng.integers(lowest, lowest + 60, count))
    numbers = rng.integers(1_000, 1_004, count).astype(np.int16)
    return pa.table(
        {
            "k": pa.array(keys, mask=rng.random(count) < 0.1),
            "n": pa.array(numbers, mask=rng.random(count) < 0.1),
            "s": pa.array([f"word {number}" for number in rng.integers(0, 5, count)]),
        }
    )


TABLES = [rows(160, 1, 0), rows(90, 2, 30)]
SCHEMA = TABLES[0].schema
EXAMPLES = [
    pytest.param(spec, id=f"{kind.__name__}-{number}")
    for kind in specs()
    for number, spec in enumerate(kind.examples(SCHEMA))
]

every_operator = pytest.mark.parametrize("spec", EXAMPLES)


def run(spec: Spec, tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    """The whole result, at one worker."""
    operator = spec.at(0).build()
    out: list[pa.RecordBatch] = []
    for number, port in enumerate(spec.ports):
        out += feed(operator, number, tables[port.input], rows=30)
    return out + list(operator.finish())


def fed(spec: Spec, tables: Sequence[pa.Table]) -> Operator:
    operator = spec.build()
    for number, port in enumerate(spec.ports):
        feed(operator, number, tables[port.input])
    return operator


def halves(data: pa.Table) -> tuple[pa.Table, pa.Table]:
    return data.slice(0, len(data) // 2), data.slice(len(data) // 2)


def columns(rows: Counter[tuple[Any, ...]], numbers: Sequence[int]) -> Counter[tuple[Any, ...]]:
    """The rows with some of their columns."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        found[tuple(row[number] for number in numbers)] += count
    return found


def test_every_spec_is_registered_once_and_has_examples() -> None:
    assert len(set(specs())) == len(specs())
    assert all(issubclass(kind, Spec) for kind in specs())
    assert {type(example.values[0]) for example in EXAMPLES} == set(specs())


@every_operator
def test_it_travels_and_gives_the_schema_that_it_says(spec: Spec) -> None:
    arrived: Spec = pickle.loads(pickle.dumps(spec))
    assert arrived == spec
    out = run(arrived, TABLES)
    assert out
    assert all(batch.schema.equals(spec.output_schema) for batch in out)
    assert spec.at(1).output_schema.equals(spec.at(0).output_schema)


@every_operator
def test_its_ports_take_all_inputs_by_columns_that_are_there(spec: Spec) -> None:
    ports = spec.ports
    assert len(ports) == spec.build().ports
    assert {port.input for port in ports} == set(range(len(spec.inputs)))
    for number, port in enumerate(ports):
        ordered = () if port.ordering is None else port.ordering.columns
        assert all(0 <= column < len(spec.inputs[port.input]) for column in (*port.keys, *ordered))
        assert port.after is None or port.after < number
        # Ranges of heavy keys: an order begins with them.
        assert not ordered or set(port.keys) == set(ordered[: len(set(port.keys))])


@every_operator
def test_it_is_described(spec: Spec) -> None:
    assert spec.label
    facts = spec.facts(lambda field: f"{field.name} {field.type}")
    assert facts
    for port in spec.ports:
        ordered = () if port.ordering is None else port.ordering.columns
        for column in (*port.keys, *ordered):
            assert any(spec.inputs[port.input].field(column).name in fact for fact in facts)


@every_operator
def test_previews_of_all_workers_are_rows_of_the_result(spec: Spec) -> None:
    workers = [fed(spec, [part.slice(0, 60) for part in TABLES]), fed(spec, [part.slice(60) for part in TABLES])]
    parts = [part for worker in workers if (part := worker.preview_part(50)) is not None]
    assert parts
    shown = spec.merged_preview(over_the_wire(parts), 100)
    assert shown
    assert all(batch.schema.names == spec.output_schema.names for batch in shown)
    assert all(batch.schema.types == spec.output_schema.types for batch in shown)
    assert 0 < sum(batch.num_rows for batch in shown) <= 100


@every_operator
@pytest.mark.parametrize("more", [False, True], ids=["as needed", "more than needed"])
def test_narrowed_it_gives_the_same_columns(spec: Spec, more: bool) -> None:
    want = rows_of(run(spec, TABLES))
    width = len(spec.output_schema)
    for wanted in ([], *([number] for number in range(width)), list(range(width))):
        needs = spec.needs(wanted)
        kept = [sorted({*need, 1} if more else need) for need in needs]
        narrow = [data.select(numbers) for data, numbers in zip(TABLES, kept, strict=False)]
        made = spec.narrowed(wanted, kept, [data.schema for data in narrow])
        assert set(wanted) <= set(made.gives)
        assert made.gives == sorted(made.gives)
        if spec.exact:
            assert made.gives == wanted
        assert made.spec.output_schema.names == [spec.output_schema.names[number] for number in made.gives]
        if made.gives:
            assert rows_of(run(made.spec, narrow)) == columns(want, made.gives)


@every_operator
def test_a_column_that_passes_holds_values_of_the_keys(spec: Spec) -> None:
    out = pa.Table.from_batches(run(spec, TABLES))
    for number, port in enumerate(spec.ports):
        for place, column in enumerate(port.keys):
            passed = spec.passes(number, column)
            if passed is None:
                continue
            # Where both sides of a join have a key, the one column may show that of the other side.
            sides = [TABLES[other.input].column(other.keys[place]) for other in spec.ports]
            known = {value for side in sides for value in side.to_pylist()} | {None}
            assert set(out.column(passed).to_pylist()) <= known


@every_operator
def test_state_handed_to_another_object_ends_alike(spec: Spec) -> None:
    stays, leaves, heir = fed(spec, TABLES), fed(spec, TABLES), spec.build()
    heir.merge_state(over_the_wire(leaves.export_state(None, remove=True)))
    assert list(leaves.export_state(None, remove=True)) == []
    for port in range(len(spec.ports)):
        heir.end_port(port)
    assert rows_of(heir.finish()) == rows_of(stays.finish())


@every_operator
def test_an_owner_and_its_helper_give_the_result_of_one(spec: Spec) -> None:
    """Split by records (§5.4): a helper's part is merged at the owner when an input ends; replicas serve a probe."""
    owner = spec.at(0).build()
    out: list[pa.RecordBatch] = []
    for number, port in enumerate(spec.ports):
        helper = spec.at(0).build(scattered=True)
        if not port.mutable:
            helper.merge_state(over_the_wire(owner.export_state(None, remove=False)))
        for before in range(number):
            helper.end_port(before)
        mine, theirs = halves(TABLES[port.input])
        for batch in batches_of(theirs, 25):
            out += helper.add(number, batch)
        for batch in batches_of(mine, 25):
            out += owner.add(number, batch)
        owner.merge_state(over_the_wire(helper.export_scattered()))
        owner.end_port(number)
    assert rows_of(out + list(owner.finish())) == rows_of(run(spec, TABLES))


@every_operator
def test_rows_combined_by_senders_give_the_same(spec: Spec) -> None:
    combiner = spec.combiner()
    if combiner is None:
        return
    assert spec.combinable
    (port,) = spec.ports
    assert combiner.keys == tuple(range(len(port.keys)))
    operator = spec.at(0).build()
    for batch in batches_of(TABLES[0], 50):
        (made,) = over_the_wire([combiner.combine(batch)])
        assert made.num_rows < batch.num_rows
        if port.keys:
            hashes = [
                hash_rows([part.column(key) for key in keys])
                for part, keys in ((made, combiner.keys), (batch, port.keys))
            ]
            assert set(np.unique(hashes[0])) == set(np.unique(hashes[1]))
        operator.add(0, made)
    operator.end_port(0)
    assert rows_of(operator.finish()) == rows_of(run(spec, TABLES))


# All values of a group are the same, so that also the first one, or a list of all, is known; one group has nulls only.
# Sums, means and products of these are exact, in whatever order they are made.
NUMBERS = (0, 1, -1, 2, -2, None, 4, -4, 8, -8, 16, -16)
GROUPED = pa.table(
    {
        "k": pa.array(np.arange(300) % 12),
        "n": pa.array([NUMBERS[row % 12] for row in range(300)], pa.int64()),
        "b": pa.array([None if row % 12 == 7 else row % 12 % 2 == 0 for row in range(300)]),
        "s": pa.array([None if row % 12 == 5 else f"word {row % 12}" for row in range(300)]),
    }
)
AGGREGATES = [
    pytest.param(aggregate, id=f"{function}-{number}")
    for function, known in registered().items()
    for number, aggregate in enumerate(known.examples())
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_aggregate_in_parts_is_that_of_all_rows(aggregate: Aggregate) -> None:
    spec = GroupBySpec(GROUPED.schema, (0,), (aggregate,))
    want = run(spec, [GROUPED])
    owner, helper = spec.build(), spec.build(scattered=True)
    for worker, part in zip((owner, helper), halves(GROUPED), strict=True):
        for batch in batches_of(part, 40):
            worker.add(0, batch)
    owner.merge_state(over_the_wire(helper.export_scattered()))
    owner.end_port(0)
    assert rows_of(owner.finish()) == rows_of(want)
    assert sum(batch.num_rows for batch in want) == 12
    assert spec.combinable == (spec.combiner() is not None)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_aggregate_is_described_renumbered_and_sent(aggregate: Aggregate) -> None:
    assert pickle.loads(pickle.dumps(aggregate)) == aggregate
    moved = aggregate.renumbered(lambda column: column + 3)
    assert moved.reads == tuple(column + 3 for column in aggregate.reads)
    assert type(moved) is type(aggregate)
    names = [GROUPED.schema.names[column] for column in aggregate.reads]
    assert all(name in aggregate.text(names) for name in names)


def test_aggregates_are_known_by_sparks_classes() -> None:
    assert {"Sum", "Average", "Count", "Percentile", "StddevPop"} <= set(registered())


def imported_by(code: str, path: Path) -> list[str]:
    """Modules of operators that are loaded when this has run in a process of its own, and what it printed."""
    show = "; import sys; print(*[name for name in sys.modules if name.startswith('reshape.operators')])"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {code}{show}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return run.stdout.split()


def test_aggregates_are_found_in_a_zip(tmp_path: Path) -> None:
    """Executors get the package as a zip."""
    root = Path(reshape.__file__).parent
    archive = tmp_path / "reshape.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in root.rglob("*.py"):
            target.write(path, Path("reshape") / path.relative_to(root))
    code = "from reshape.operators.aggregates import registry; print(registry.__file__, *registry.registered())"
    place, *printed = imported_by(code, archive)
    assert place.startswith(str(archive))
    assert set(registered()) <= set(printed)


def test_senders_are_spared_the_code_of_operators() -> None:
    """Half of a source task's start-up time."""
    loaded = imported_by("import reshape.sender.source", Path(reshape.__file__).parent.parent)
    allowed = {"", ".base", ".errors", ".first_rows", ".spec"}
    assert {name.removeprefix("reshape.operators") for name in loaded} <= allowed
