"""Tweets as Spark DataFrames: W1's with their location (§7.1), and those on Covid with their month (Figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reshape.datasets.draws import bits, choice, uniform, word
from reshape.datasets.months import NAMES, PERCENT
from reshape.datasets.tweets import POPULATION, tweets_per_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCATIONS = len(POPULATION)
WORDS = 3  # slang words per location
TOPICS = ("covid", "climate", "football", "election")
_OPENINGS = (
    "just saw",
    "cannot stop reading",
    "so tired of",
    "who else follows",
    "big news",
    "finally some",
    "no more",
)
_CLOSINGS = ("today", "again", "this morning", "right now", "in town", "all week long", "and it is only monday")

# New cases in the US in 2020, rounded: the line that Figure 1 draws above the bars, not statistics.
CASES = {
    1: 7,
    2: 60,
    3: 190_000,
    4: 880_000,
    5: 720_000,
    6: 840_000,
    7: 1_900_000,
    8: 1_500_000,
    9: 1_200_000,
    10: 1_900_000,
    11: 4_400_000,
    12: 6_400_000,
}


def tweets(spark: SparkSession, rows: int, *, partitions: int = 8, seed: int = 1, skewed: bool = True) -> DataFrame:
    """``tweet_id``, ``location`` and ``text``. Locations are skewed as in the paper, or all alike.

    A text has one of four topics, and in one tweet of four a slang word of its location.
    """
    place = choice(tweets_per_location(), "place") if skewed else f"{uniform(LOCATIONS, 'place')} + 1"
    drawn = spark.range(0, rows, 1, partitions).selectExpr(
        "id", f"{bits('id', seed, 'place')} AS place", f"{bits('id', seed, 'text')} AS phrase"
    )
    located = drawn.selectExpr("id AS tweet_id", f"{place} AS location", "phrase")
    return located.selectExpr("tweet_id", "location", f"{_text(_maybe_slang('phrase'))} AS text")


def slang(spark: SparkSession, *, words: int = WORDS) -> DataFrame:
    """``location``, ``slang_rank`` and ``slang``: the top slang words of each location."""
    ranked = spark.range(0, LOCATIONS * words, 1, 1).selectExpr(
        f"CAST(id % {LOCATIONS} + 1 AS INT) AS location", f"CAST(id DIV {LOCATIONS} + 1 AS INT) AS slang_rank"
    )
    return ranked.selectExpr("location", "slang_rank", f"{_slang_word('location', 'slang_rank')} AS slang")


def covid_tweets(spark: SparkSession, rows: int, *, partitions: int = 8, seed: int = 1) -> DataFrame:
    """``tweet_id``, ``month`` and ``text``: December has four times October's."""
    drawn = spark.range(0, rows, 1, partitions).selectExpr(
        "id", f"{bits('id', seed, 'month')} AS draw", f"{bits('id', seed, 'text')} AS phrase"
    )
    text = f"concat_ws(' ', {word(_OPENINGS, 'phrase')}, 'covid', {word(_CLOSINGS, 'xxhash64(phrase)')})"
    return drawn.selectExpr("id AS tweet_id", f"{choice(PERCENT, 'draw')} AS month", f"{text} AS text")


def covid_cases(spark: SparkSession) -> DataFrame:
    """``month``, ``month_name`` and ``cases``."""
    rows = [(month, NAMES[month - 1], cases) for month, cases in CASES.items()]
    return spark.createDataFrame(rows, "month int, month_name string, cases int")


def _text(slang: str) -> str:
    topic = word(TOPICS, "xxhash64(phrase, 1)")
    return f"concat_ws(' ', {word(_OPENINGS, 'phrase')}, {topic}, {slang}, {word(_CLOSINGS, 'xxhash64(phrase, 2)')})"


def _maybe_slang(bits: str) -> str:
    """A word of the tweet's own location, or nothing: ``concat_ws`` leaves nulls out."""
    rank = f"CAST(1 + shiftrightunsigned({bits}, 8) % {WORDS} AS INT)"
    return f"IF({bits} & 3 = 0, {_slang_word('location', rank)}, NULL)"


def _slang_word(location: str, rank: str) -> str:
    return f"concat('slang', {location}, '_', {rank})"
