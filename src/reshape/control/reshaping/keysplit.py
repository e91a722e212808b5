"""Split by keys (§3.1): each key is processed by one worker at a time, so the order of its rows is kept.

The chosen keys move and stay: what phase one redirects is the part that phase two keeps, and one state transfer serves
both (§3.2). Keys are handed over behind markers whatever their state is: even where it is immutable and could be copied
beforehand, the helper must not overtake the rows that still wait at the skewed worker. Nothing queued is moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reshape.control.outbox import Outbox, names, rows
from reshape.control.profile import OperatorProfile
from reshape.control.reshaping.mitigation import Mitigation, Phase, Transfer
from reshape.control.reshaping.shares import ChosenKeys, choose_keys
from reshape.control.reshaping.threshold import Forecast, Threshold
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.routing import Key, Shares
from reshape.control.sensing.observation import Observation
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind


class SplitByKeys:
    """Drives one mitigation with one helper. Methods that return text return the reason to end it."""

    def __init__(
        self,
        profile: OperatorProfile,
        settings: StrategySettings,
        seen: Observation,
        out: Outbox,
        transfers: TransfersUnderWay,
    ) -> None:
        self._settings = settings
        self._seen = seen
        self._out = out
        self._transfers = transfers
        self.control_lag_s = 0.0

    def refuses(self, m: Mitigation) -> bool:
        """Says so when no set of keys helps; nothing is started then."""
        return not self._choose(m).keys

    def start(self, m: Mitigation) -> str | None:
        m.part = frozenset()
        return self._give(m)

    def state_ready(self, m: Mitigation) -> str | None:
        """A hand-over is complete."""
        if self._seen.input_ended:
            return "the input has ended"
        self._settle(m)
        return None

    def advance(self, m: Mitigation, threshold: Threshold) -> str | None:
        seen = self._seen
        helper = m.helpers[0]
        gap = seen.workloads[m.skewed] - seen.workloads[helper]
        if -gap >= threshold.tau and seen.workloads[helper] >= seen.eta:
            return self._take_back(m, -gap, threshold)
        if seen.workloads[m.skewed] < seen.eta:
            return None
        own, other = seen.predict(m.skewed), seen.predict(helper)
        error = max(own.standard_error, other.standard_error)
        gap_left = self._own(m) - self._others(m)
        test = threshold.look(gap, Forecast(error, own.mean - other.mean, gap_left, own.windows))
        if not test.start:
            return None
        before = m.part
        ended = self._give(m)
        if ended is not None:
            # Keys given earlier go on helping; only a worker that could give nothing at all is released.
            return None if before else ended
        self._out.record(
            DecisionKind.ITERATED,
            m.skewed,
            m.helpers,
            f"next iteration: worker {m.skewed} has {rows(gap)} rows more than worker {helper} again; tau was "
            f"{rows(threshold.tau)} ({test.change.value})",
        )
        return None

    def withdraw(self, m: Mitigation) -> bool:
        """Return all keys to their owner; False while they are on their way."""
        if not m.part:
            return True
        self._transfers.hand_over(m, m.helpers[0], m.part, to_helper=False)
        self._route(m, m.part, to_helper=False)
        return False

    def lost(self, m: Mitigation, transfer: Transfer, helpers: Sequence[int]) -> tuple[int, ...]:
        """A hand-over failed: its keys stay where they were, and the helper stays in the group."""
        self._route(m, transfer.keys or frozenset(), to_helper=not transfer.to_helper)
        self._out.cancel(transfer.id, "the hand-over failed")
        return ()

    def backlog_moved(self, m: Mitigation, moved: int) -> None:
        """Never happens: nothing queued is moved."""

    def _choose(self, m: Mitigation) -> ChosenKeys:
        own, others = self._own(m), self._others(m)
        loads = {k: v for k, v in self._seen.key_loads(m.skewed).items() if k not in (m.part or ())}
        chosen = choose_keys(loads, (own - others) / 2)
        if not chosen.keys:
            text = (
                f"no set of worker {m.skewed}'s keys helps: it is expected to receive {own:,.1f} of the next "
                f"{rows(self._settings.horizon_rows)} rows and {names(m.helpers)} {others:,.1f}, and every set that "
                f"could move is empty or larger than the difference"
            )
            self._out.record(DecisionKind.REFUSED, m.skewed, m.helpers, text, "no set helps")
        return chosen

    def _give(self, m: Mitigation) -> str | None:
        """Choose keys of the skewed worker and hand them over to the helper."""
        chosen = self._choose(m)
        if not chosen.keys:
            return "no set of its keys helps"
        helper = m.helpers[0]
        own, others, loads = self._own(m), self._others(m), self._seen.key_loads(m.skewed)
        self._out.record(
            DecisionKind.CHANGED,
            m.skewed,
            m.helpers,
            f"{_listed(chosen.keys, loads)} of worker {m.skewed} move to worker {helper}: expected loads "
            f"change from {own:,.1f} and {others:,.1f} to {own - chosen.load:,.1f} and {others + chosen.load:,.1f}",
        )
        m.phase = Phase.MIGRATING
        self._transfers.hand_over(m, helper, chosen.keys, to_helper=True)
        self._route(m, chosen.keys, to_helper=True)
        return None

    def _take_back(self, m: Mitigation, surplus: float, threshold: Threshold) -> str | None:
        """The helper has more than the skewed worker now: return some of the keys."""
        helper = m.helpers[0]
        own, others = self._own(m), self._others(m)
        loads = {k: v for k, v in self._seen.key_loads(m.skewed).items() if k in (m.part or ())}
        chosen = choose_keys(loads, (others - own) / 2)
        if not chosen.keys:
            return "its helper's own load is larger by now" if others - own > sum(loads.values()) else None
        self._out.record(
            DecisionKind.ITERATED,
            m.skewed,
            m.helpers,
            f"next iteration: {names(m.helpers)} has {rows(surplus)} rows more than worker {m.skewed}, at least "
            f"tau = {rows(threshold.tau)}; {_listed(chosen.keys, loads)} return to worker {m.skewed}",
        )
        m.phase = Phase.MIGRATING
        self._transfers.hand_over(m, helper, chosen.keys, to_helper=False)
        self._route(m, chosen.keys, to_helper=False)
        return None

    def _route(self, m: Mitigation, keys: frozenset[Key], *, to_helper: bool) -> None:
        rule = Shares.whole(m.helpers[0]) if to_helper else None
        routing = self._out.routing
        held = m.part or frozenset()
        m.part = held | keys if to_helper else held - keys
        if routing.set_keys(keys, rule):
            m.version = routing.next_version

    def _settle(self, m: Mitigation) -> None:
        m.phase = Phase.SHARING
        self._seen.balanced(m.group)

    def _own(self, m: Mitigation) -> float:
        """Expected load of the skewed worker with the keys that it still has."""
        return self._seen.predict(m.skewed).mean - self._moved(m)

    def _others(self, m: Mitigation) -> float:
        return self._seen.predict(m.helpers[0]).mean + self._moved(m)

    def _moved(self, m: Mitigation) -> float:
        loads = self._seen.key_loads(m.skewed)
        return sum(loads.get(key, 0.0) for key in m.part or ())


def _listed(keys: frozenset[Key], loads: Mapping[Key, float]) -> str:
    ordered = sorted(keys, key=lambda key: (-loads.get(key, 0.0), repr(key)))
    shown = ", ".join(repr(key) for key in ordered[:5])
    return f"keys {shown}" + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")
