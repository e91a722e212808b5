"""What is told: every decision with its cause and numbers, refusals once."""

from __future__ import annotations

from reshape.control.commands import ReplicateState
from reshape.control.story import KEPT_DECISIONS, Decision, DecisionKind, Story

from .desk import SBK, Desk, only


def decision(kind: DecisionKind, skewed: int = 0, text: str = "words", helpers: tuple[int, ...] = (1,)) -> Decision:
    return Decision(1, 2.0, kind, skewed, helpers, text)


def test_the_same_refusal_is_told_once() -> None:
    story = Story()
    for gap in (5, 6, 7):
        story.record(decision(DecisionKind.REFUSED, text=f"gap {gap}"), "too small")
    assert [d.text for d in story.decisions] == ["gap 5"]
    story.record(decision(DecisionKind.REFUSED, text="other"), "too late")
    story.record(decision(DecisionKind.REFUSED, skewed=3, text="worker 3"), "too late")
    assert len(story.decisions) == 3


def test_a_refusal_without_a_reason_goes_by_its_words() -> None:
    story = Story()
    for text in ("one", "one", "two"):
        story.record(decision(DecisionKind.REFUSED, text=text))
    assert [d.text for d in story.decisions] == ["one", "two"]


def test_a_refusal_is_told_again_after_something_else_happened() -> None:
    story = Story()
    story.record(decision(DecisionKind.REFUSED), "why")
    story.record(decision(DecisionKind.CHANGED))
    story.record(decision(DecisionKind.REFUSED), "why")
    assert [d.kind for d in story.decisions] == [DecisionKind.REFUSED, DecisionKind.CHANGED, DecisionKind.REFUSED]


def test_a_worker_finds_its_story_as_skewed_and_as_helper() -> None:
    story = Story()
    story.record(decision(DecisionKind.STARTED, 0, "a", (1, 2)))
    story.record(decision(DecisionKind.STARTED, 3, "b", (4,)))
    assert [len(story.of(worker)) for worker in range(6)] == [1, 1, 1, 1, 1, 0]
    assert story.of(2) == ["2.00 s, event 1: a"]


def test_the_past_is_bounded() -> None:
    story = Story()
    for number in range(KEPT_DECISIONS + 5):
        story.record(decision(DecisionKind.CHANGED, text=str(number)))
    assert len(story.decisions) == KEPT_DECISIONS
    assert story.decisions[0].text == "5"


def test_decisions_carry_the_numbers_that_decided() -> None:
    desk = Desk()
    desk.report([0, 0, 0], [800, 100, 100])
    sent = only(desk.report([450, 20, 70], [800, 100, 100]), ReplicateState)
    started = desk.brain.decisions[-1]
    assert (started.kind, started.skewed, started.helpers) == (DecisionKind.STARTED, 0, (1,))
    for number in ("450", "20", "430", "100"):
        assert number in started.text
    desk.state_arrives(sent.transfer, 1)
    assert "450" in desk.brain.decisions[-1].text
    desk.apply()
    desk.report([400, 400, 70], [800, 100, 100])
    assert "1,600.0" in desk.brain.decisions[-1].text
    assert "7/16" in desk.brain.decisions[-1].text
    assert all(d.event in desk.causes for d in desk.brain.decisions)
    assert len(desk.brain.story(0)) == len(desk.brain.story(1)) == len(desk.brain.decisions)
    assert desk.brain.story(2) == []


def test_a_worker_that_cannot_be_helped_is_not_told_about_again_and_again() -> None:
    desk = Desk(split=SBK)
    desk.report([0, 0, 0], [900, 50, 50], keys={0: {"hot": 900}})
    for _ in range(40):
        desk.report([5000, 0, 0], [900, 50, 50], keys={0: {"hot": 900}})
    refusals = [d for d in desk.brain.decisions if d.kind is DecisionKind.REFUSED]
    assert len(refusals) == 1
    assert "no set of worker 0's keys helps" in refusals[0].text
