"""percentile_approx (approx_percentile). Values that repeat are kept once, with their count, and the result is the
percentile itself as long as they are few; beyond that they are summarised, with no more than the error that Spark
promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, present, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.list_states import (
    lengths_of,
    listed,
    shown_lists,
    spark_list,
    spread_over,
    weighed,
)
from reshape.operators.aggregates.lists import Weighed, percentages_of
from reshape.operators.aggregates.quantiles import Counts, Doubles, Summary, compressed, merged
from reshape.operators.aggregates.registry import spark_function

# Different values that are kept at least; a summary has about twice the accuracy, and some room to grow.
_FEWEST = 256
_PER_ACCURACY = 4


@spark_function("ApproximatePercentile")
@dataclass(frozen=True, slots=True)
class ApproxPercentile(OfColumn):
    """The value at a share of the rows in order, at most 1 / accuracy of the rows away from it."""

    percentages: tuple[float, ...]
    as_list: bool = False
    accuracy: int = 10_000

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", 1, (0.5,)), cls("result", 1, (0.0, 0.3, 1.0), as_list=True, accuracy=2))

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        percentages, as_list = percentages_of(call)
        accuracy = int(call.function.accuracyExpression().eval(None))
        return cls(call.name, call.column(), percentages, as_list, accuracy)

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ApproxPercentileLogic(fields[0], self)

    def text(self, names: Sequence[str]) -> str:
        return f"percentile_approx({names[0]}, {', '.join(map(str, self.percentages))})"


class ApproxPercentileLogic(AggregateLogic):
    """Works on doubles, as Spark does, and gives values of the type of the column."""

    algebraic: bool = False

    def __init__(self, field: pa.Field, of: ApproxPercentile) -> None:
        kind = field.type
        number = pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind)
        if not (number or pat.is_date32(kind) or pat.is_timestamp(kind) or pat.is_duration(kind)):
            raise unsupported("percentile_approx", field)
        self._of = of
        self._kind = kind
        self._most_values = max(_FEWEST, _PER_ACCURACY * of.accuracy)
        # Values, counts, and for groups that are summarised what is not known: see `Summary`.
        self.state_types = (pa.large_list(pa.float64()), *[pa.large_list(pa.int64())] * 3)
        self.output_type = spark_list(kind) if of.as_list else kind

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        if pat.is_temporal(self._kind):
            values = values.cast(pa.int32() if pat.is_date32(self._kind) else pa.int64())
        counted = weighed(pa.array(as_doubles(values)), np.ones(len(values), dtype=np.int64), groups)
        return self._stated(*counted, {})

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        summarised = np.unique(groups.codes[lengths_of(states[2]) > 0])
        apart = np.isin(groups.codes, summarised)
        summaries = {
            group: self._bounded(
                merged([_summary(states, row) for row in np.flatnonzero(groups.codes == group).tolist()])
            )
            for group in summarised.tolist()
        }
        if summaries:
            states, groups = [state.filter(pa.array(~apart)) for state in states], groups.only(~apart)
        (values, counts), groups = spread_over(states[:2], groups)
        different, sums, sizes = weighed(values, counts.to_numpy(), groups)
        starts = np.cumsum(sizes) - sizes
        for group in np.flatnonzero(sizes > self._most_values).tolist():
            one = slice(starts[group], starts[group] + sizes[group])
            summaries[group] = self._bounded(Summary.exact(different.to_numpy()[one], sums[one]))
        return self._stated(different, sums, sizes, summaries)

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        ordered = Weighed(states[:2])
        some = np.flatnonzero(ordered.counts) if self._of.percentages else np.zeros(0, dtype=np.int64)
        counts = ordered.counts[some]
        found = [ordered.at(some, self._rank(counts, share) - 1) for share in self._of.percentages]
        values = self._shown(np.stack(found, axis=1).reshape(-1) if found else np.zeros(0))
        absent = np.ones(len(ordered.counts), dtype=np.bool_)
        absent[some] = False
        if self._of.as_list:
            return shown_lists(values, ~absent * len(found), self.output_type, absent)
        return values.take(pa.array(np.cumsum(~absent) - 1, mask=absent))

    def _rank(self, counts: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.int64]:
        """Which of the values in order, the first being 1: at the ends Spark has the least and the largest one."""
        error = 1.0 / self._of.accuracy
        if share <= error:
            return np.ones_like(counts)
        return counts if share >= 1 - error else np.ceil(share * counts).astype(np.int64)

    def _stated(self, values: pa.Array, counts: Counts, sizes: Counts, summaries: dict[int, Summary]) -> list[pa.Array]:
        """Groups of which all is known, and summaries in the place of some. Rows that come together are never
        summarised at once: what is not known of them would leave no room for what is not known of others."""
        nothing = np.zeros_like(sizes)
        columns = [(values.to_numpy(), sizes), (counts, sizes), (counts[:0], nothing), (counts[:0], nothing)]
        made = []
        for (known, lengths), field, kind in zip(columns, _FIELDS, self.state_types, strict=True):
            parts = {group: getattr(summary, field) for group, summary in summaries.items()}
            flat, long = _with_parts(known, lengths, parts)
            made.append(listed(pa.array(flat), long, kind.value_type))
        return made

    def _bounded(self, summary: Summary) -> Summary:
        if len(summary.values) <= self._most_values:
            return summary
        return compressed(summary, summary.rows // self._of.accuracy)

    def _shown(self, values: Doubles) -> pa.Array:
        if pat.is_decimal(self._kind):
            unit = Decimal(1).scaleb(-self._kind.scale)
            exact = [Decimal(repr(value)).quantize(unit, ROUND_HALF_UP) for value in values.tolist()]
            return pa.array(exact, type=self._kind)
        if pat.is_floating(self._kind):
            return pa.array(values).cast(self._kind)
        # Java's cast: what is beyond a long becomes the largest or the least one.
        limit = 2.0**63
        beyond = values >= limit
        whole = np.where(beyond, 0.0, np.maximum(values, -limit)).astype(np.int64)
        whole[beyond] = np.iinfo(np.int64).max
        narrow = pa.array(whole)
        return (narrow.cast(pa.int32()) if pat.is_date32(self._kind) else narrow).cast(self._kind)


_FIELDS = ("values", "counts", "gaps", "widths")


def _summary(states: Sequence[pa.Array], row: int) -> Summary:
    """One that a state holds; a state of which all is known holds no gaps."""
    values, counts, gaps, widths = (state[row].values.to_numpy(zero_copy_only=False) for state in states)
    return Summary(values, counts, gaps, widths) if len(gaps) else Summary.exact(values, counts)


def _with_parts(flat: npt.NDArray[Any], lengths: Counts, parts: dict[int, npt.NDArray[Any]]) -> tuple[Any, Counts]:
    """Values that lie group by group, and how many each group has, with other values for some groups."""
    if not parts:
        return flat, lengths
    starts, longer = np.cumsum(lengths) - lengths, lengths.copy()
    pieces, at = [], 0
    for group in sorted(parts):
        pieces += [flat[at : starts[group]], parts[group]]
        at = starts[group] + lengths[group]
        longer[group] = len(parts[group])
    return np.concatenate([*pieces, flat[at:]]), longer
