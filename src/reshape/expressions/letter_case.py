"""Upper and lower case of letters as the running Spark has them: asked in the driver, sent along, used by hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from reshape.expressions.table import SessionFacts

# What can have a case, or stand between letters without ending a word. Not there: Chinese signs, Hangul and Tangut
# syllables, private use, halves of surrogate pairs; and the bar, which separates letters in questions.
_WITHOUT = [(0x3400, 0xA000), (0xAC00, 0xD7B0), (0xD800, 0xF900), (0x17000, 0x18D00), (0x20000, 0xE0000)]
_SIGMA, _INNER_SIGMA, _FINAL_SIGMA = "Σσς"
# Where Java's locale has one of these languages the case of a letter depends on more than the letter.
_LANGUAGES_WITH_RULES = ("tr", "az", "lt", "el", "hy")


@dataclass(frozen=True, slots=True)
class CaseTable:
    """What each letter becomes, for those that change; `language` is the one of Java's locale.

    For a capital sigma, which becomes another letter at the end of a word: the letters that have a case, and those
    (such as accents) that are looked through when the word's end is searched. Empty where texts are put in upper case.
    """

    letters: tuple[tuple[int, str], ...]
    language: str
    cased: str
    ignored: str

    @property
    def reason_against(self) -> str | None:
        if self.language in _LANGUAGES_WITH_RULES:
            return f"letters have rules of their own in Java's locale, {self.language}"
        return None

    def applied(self, texts: Iterable[str]) -> list[str]:
        """The texts in the other case."""
        mapping = dict(self.letters)
        cased, ignored = frozenset(self.cased), frozenset(self.ignored)

        def meets_letter(text: str) -> bool:
            return next((letter in cased for letter in text if letter not in ignored), False)

        def changed(text: str) -> str:
            if _SIGMA not in text or not cased:
                return text.translate(mapping)
            return "".join(
                letter.translate(mapping)
                if letter != _SIGMA
                else _FINAL_SIGMA
                if meets_letter(text[:place][::-1]) and not meets_letter(text[place + 1 :])
                else _INNER_SIGMA
                for place, letter in enumerate(text)
            )

        return [changed(text) for text in texts]


@cache
def _letters() -> list[str]:
    """80,000 of them, for the driver alone: hosts, which import this too, do not need them."""
    starts, ends = zip(*_WITHOUT, strict=True)
    spans = zip((0, *ends), (*starts, 0xE1000), strict=True)
    return [chr(code) for start, end in spans for code in range(start, end) if chr(code) != "|"]


def read_case(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    """Asks the JVM what it makes of every letter."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm
    name = str(expression.getClass().getSimpleName())
    language = str(jvm.java.util.Locale.getDefault().getLanguage())
    if (name, language) not in _tables:
        texts = jvm.org.apache.spark.unsafe.types.UTF8String
        # Not the expression's own evaluation, which would look at the settings of whatever session is active.
        change = getattr(jvm.org.apache.spark.sql.catalyst.util.CollationSupport, name).execBinaryICU

        def ask(before: str, after: str) -> list[str]:
            question = "|".join(f"{before}{letter}{after}" for letter in _letters())
            return str(change(texts.fromString(question)).toString()).split("|")

        _tables[name, language] = _asked(ask, language, lowers=name == "Lower")
    return {"case": _tables[name, language] if facts.icu_case else None}


def _asked(ask: Any, language: str, lowers: bool) -> CaseTable:
    pairs = zip(_letters(), ask("", ""), strict=True)
    letters = tuple((ord(before), after) for before, after in pairs if before != after)
    if not lowers:
        return CaseTable(letters, language, "", "")
    # Behind a letter with a case a sigma is final, unless another such letter follows, ignored ones between or not.
    cased = [letter for letter, word in zip(_letters(), ask("a" + _SIGMA, ""), strict=True) if word[1] == _INNER_SIGMA]
    followed = [
        letter for letter, word in zip(_letters(), ask("a" + _SIGMA, "a"), strict=True) if word[1] == _INNER_SIGMA
    ]
    return CaseTable(letters, language, "".join(cased), "".join(sorted(set(followed) - set(cased))))


_tables: dict[tuple[str, str], CaseTable] = {}
