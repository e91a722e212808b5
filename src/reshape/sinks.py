"""Charts as sinks: the end of a flow that is drawn while it runs (§2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshape.observe.charts import ChartSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from reshape.flows import Flow
    from reshape.query import Query


@dataclass(frozen=True)
class ChartSink:
    """A flow that ends in a chart. What feeds a line is split by keys, so that it grows without gaps where its input is
    in order; what feeds bars is split by records, so that they have the final proportions early (§3.1)."""

    flow: Flow
    chart: ChartSpec

    def start(self) -> Query:
        """Run the flow in the background; its page and its view in a notebook show the chart."""
        query = self.flow.start()
        query.draw(self.chart)
        return query

    def explain(self) -> None:
        """Print the flow, and what is drawn of it."""
        print(f"a {self.chart.kind} chart: {self.chart}")
        self.flow.explain()


def sink(flow: Flow, chart: ChartSpec) -> ChartSink:
    """``flow`` as what feeds a chart."""
    check_chart(chart, flow.schema)
    return ChartSink(flow.options(ordered=True) if chart.kind == "line" else flow, chart)


def check_chart(chart: ChartSpec, schema: StructType) -> None:
    """Raise unless a result of this schema can be drawn so."""
    from pyspark.sql.types import NumericType

    chart.check({field.name: isinstance(field.dataType, NumericType) for field in schema})
