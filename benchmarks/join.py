"""W1's join with keys that are all alike, beside Spark's own joins: interleaved runs, medians of ratios.

(a) Spark's shuffled hash join feeding a function (mapInArrow)
(b) Spark's sort-merge join feeding the same function

Broadcast joins are off, for they avoid the exchange that is compared here; adaptive execution is as Spark has it.
Figures are tweets per second; each tweet meets three slang words, so the function gets three times as many rows.
"""

from __future__ import annotations

import sys
from typing import Any

from _side_by_side import compare, pass_on, run
from pyspark.sql import SparkSession

import reshape
from reshape.datasets.tweet_tables import slang, tweets

TWEETS, QUICK_TWEETS = 4_000_000, 400_000
AT_LEAST = 1.2


def measure(spark: SparkSession, quick: bool, repeats: int) -> dict[str, Any]:
    rows = QUICK_TWEETS if quick else TWEETS
    left, right = tweets(spark, rows, partitions=8, skewed=False), slang(spark)
    schema = left.join(right, "location").schema
    same = pass_on()
    ways = {
        "reshape": lambda: reshape.flow(left.join(right, "location")).mapInArrow(same, schema).toDF(exchange=False),
        "a": lambda: left.join(right.hint("SHUFFLE_HASH"), "location").mapInArrow(same, schema),
        "b": lambda: left.join(right.hint("MERGE"), "location").mapInArrow(same, schema),
    }
    result = compare(rows, ways, repeats)
    middle = result["medians"]
    ratio = result["ratio_to_better"] = min(result["ratios"].values())
    print(
        f"W1, uniform keys: reshape {middle['reshape']:.2f} M tweets/s; {ratio:.2f} x of the better "
        f"of (a) shuffled hash join ({middle['a']:.2f}) and (b) sort-merge join ({middle['b']:.2f}); wanted {AT_LEAST}",
        flush=True,
    )
    return {"W1, uniform keys": result}


if __name__ == "__main__":
    sys.exit(run("join", __doc__ or "", measure, {"spark.sql.autoBroadcastJoinThreshold": "-1"}))
