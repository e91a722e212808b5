from __future__ import annotations

from reshape.sim.agenda import Agenda


def test_actions_of_one_moment_happen_in_the_order_planned() -> None:
    agenda = Agenda()
    done: list[str] = []
    agenda.at(2.0, lambda: done.append("late"))
    agenda.at(1.0, lambda: done.append("first"))
    agenda.at(1.0, lambda: done.append("second"))
    agenda.run()
    assert done == ["first", "second", "late"]
    assert agenda.now == 2.0


def test_the_past_is_now() -> None:
    agenda = Agenda()
    seen: list[float] = []
    agenda.at(5.0, lambda: agenda.at(1.0, lambda: seen.append(agenda.now)))
    agenda.run()
    assert seen == [5.0]


def test_periods_meet_at_their_common_multiples() -> None:
    """3 times 0.1 is not 0.3 in floating point; whether a report sees a group must not depend on that."""
    agenda = Agenda()
    ticks: list[float] = []
    reports: list[float] = []

    def note(times: list[float]) -> bool:
        times.append(agenda.now)
        return agenda.now < 100

    agenda.every(0.1, lambda: note(ticks))
    agenda.every(0.3, lambda: note(reports))
    agenda.run()
    assert set(reports[:-1]) <= set(ticks)
    assert ticks[-1] == 100.0
