"""Split by records (§3.1, §3.2): the rows of every key are divided between the skewed worker and its helpers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from reshape.control.outbox import Outbox, names, rows
from reshape.control.profile import OperatorProfile, StateKind
from reshape.control.reshaping.mitigation import Mitigation, Phase, Transfer
from reshape.control.reshaping.shares import backlog_rows, fill_up, in_parts, record_shares, surplus_rows
from reshape.control.reshaping.threshold import Forecast, Threshold
from reshape.control.reshaping.under_way import TransfersUnderWay
from reshape.control.routing import Key, Shares
from reshape.control.sensing.observation import Observation
from reshape.control.settings import FirstPhase, StrategySettings
from reshape.control.story import DecisionKind

# The part that phase one may be limited to: the heaviest keys, until they carry this much of the partition.
PART_OF_LOAD = 0.5
HELPER_IS_LOADED = "its helper's own load is larger by now"


class SplitByRecords:
    """Drives one mitigation through its phases. Methods that return text return the reason to end it."""

    def __init__(
        self,
        profile: OperatorProfile,
        settings: StrategySettings,
        seen: Observation,
        out: Outbox,
        transfers: TransfersUnderWay,
    ) -> None:
        self._profile = profile
        self._settings = settings
        self._seen = seen
        self._out = out
        self._transfers = transfers
        self._max_denominator = settings.max_denominator
        self.control_lag_s = 0.0

    def refuses(self, m: Mitigation) -> bool:
        """Any share of records can move."""
        return False

    def start(self, m: Mitigation) -> str | None:
        """Bring the state to the helpers, or go straight on where none is needed: mutable state scatters (§5.4)."""
        if self._settings.first_phase is FirstPhase.PART and not self._seen.input_ended:
            m.part = self._heavy_part(m.skewed)
        if self._profile.state is StateKind.IMMUTABLE:
            missing = tuple(h for h in m.helpers if not self._transfers.has_replica(m.owner, h, m.part))
            if missing:
                self._transfers.replicate(m, missing, m.part)
                return None
        return self.state_ready(m)

    def state_ready(self, m: Mitigation) -> str | None:
        if self._seen.input_ended:
            return self._hand_backlog(m)
        if self._settings.backlog and self._any_row_may_move(m):
            return self._level(m)
        if self._settings.first_phase is FirstPhase.OFF:
            return self._share(m)
        return self._catch_up(m)

    def _any_row_may_move(self, m: Mitigation) -> bool:
        """Queued rows move whatever their key is, so a helper with the state of some keys only cannot take them."""
        return m.part is None or self._profile.state is StateKind.MUTABLE

    def advance(self, m: Mitigation, threshold: Threshold) -> str | None:
        """Look at a new report while nothing is under way."""
        if m.phase is Phase.HANDING_OVER:
            return "its queued rows have been handed over"
        gap = self._gap(m)
        if m.phase is Phase.CATCHING_UP:
            return self._share(m) if self._closed(m, gap) else None
        if m.phase is Phase.RETURNING:
            if self._helper_is_loaded(m):
                return HELPER_IS_LOADED  # it will never be caught up with
            return self._share(m) if self._closed(m, -gap) else None
        return self._keep_balance(m, gap, threshold)

    def withdraw(self, m: Mitigation) -> bool:
        """Take back the rules of a mitigation: its rows go to their owner again."""
        self._set_rule(m, None)
        return True

    def lost(self, m: Mitigation, transfer: Transfer, helpers: Sequence[int]) -> tuple[int, ...]:
        """State did not reach these helpers: they leave the group."""
        m.helpers = tuple(helper for helper in m.helpers if helper not in helpers)
        return tuple(helpers)

    def backlog_moved(self, m: Mitigation, moved: int) -> None:
        m.queue_was_dry = moved == 0

    def _catch_up(self, m: Mitigation) -> str | None:
        """Phase one: all future rows go to the helpers, most to the one that is furthest behind."""
        seen = self._seen
        gifts = fill_up(seen.workloads[m.skewed], {h: seen.workloads[h] for h in m.helpers})
        if not gifts:
            return self._share(m)
        m.phase = Phase.CATCHING_UP
        self._set_rule(m, _in_proportion(gifts, self._max_denominator))
        what = "all future rows" if m.part is None else f"future rows of its {len(m.part)} heaviest keys"
        self._out.record(
            DecisionKind.CHANGED,
            m.skewed,
            m.helpers,
            f"phase one: {what} of worker {m.skewed} go to {names(gifts)} until the workloads are similar; "
            f"{rows(seen.workloads[m.skewed])} wait at worker {m.skewed}, {self._waiting(m)}",
        )
        return None

    def _return_load(self, m: Mitigation) -> None:
        m.phase = Phase.RETURNING
        self._set_rule(m, None)
        self._out.record(
            DecisionKind.CHANGED,
            m.skewed,
            m.helpers,
            f"phase one, reversed: all future rows of worker {m.skewed} stay with it until it has caught up; "
            f"{rows(self._seen.workloads[m.skewed])} wait at worker {m.skewed}, {self._waiting(m)}",
        )

    def _share(self, m: Mitigation) -> str | None:
        """Phase two: the shares that make predicted loads equal. Samples start anew from here."""
        shares = self._equal_shares(m)
        if not shares:
            return "it is not expected to receive more than its helpers any longer"
        expected = self._expected(m)
        # Without a first phase the gap of the start stays; only what comes on top of it is a new imbalance.
        # (Busy time does not add up: it follows the shares at once.)
        accepts = self._settings.first_phase is FirstPhase.OFF and self._settings.metric == "rows"
        gap_stays = accepts and not self._settings.backlog
        m.gap_accepted = self._gap(m) if gap_stays else 0.0
        self._seen.balanced(m.group)
        m.phase = Phase.SHARING
        self._set_rule(m, Shares.of(m.skewed, shares))
        listed = ", ".join(f"{share} to worker {worker}" for worker, share in shares.items())
        of_what = f"worker {m.skewed}'s rows" if m.part is None else f"worker {m.skewed}'s heavy keys' rows"
        self._out.record(
            DecisionKind.CHANGED, m.skewed, m.helpers, f"phase two: {expected}, so of {of_what} go {listed}"
        )
        return None

    def _level(self, m: Mitigation, *, back: bool = False) -> str | None:
        """Share the future and, at once, even out what is queued already."""
        queued = self._queued_soon(m)
        ended = self._share(m)
        if ended is not None:
            return ended
        if back:
            self._move(m, surplus_rows(queued[m.skewed], {h: queued[h] for h in m.helpers}), back=True)
        else:
            self._move(m, self._gifts(m, queued))
        return None

    def _gifts(self, m: Mitigation, queued: Mapping[int, int] | Sequence[int]) -> dict[int, int]:
        """Queued rows that make the group level."""
        return backlog_rows(queued[m.skewed], {h: queued[h] for h in m.helpers})

    def _queued_soon(self, m: Mitigation) -> dict[int, int]:
        """What will be queued when the next table is in use: until then rows arrive as they did before."""
        seen = self._seen
        ahead_s = self._out.time - seen.time + self.control_lag_s
        rule = self._out.routing.current.owners.get(m.skewed)
        arriving = seen.input_rate * seen.fraction(m.skewed)
        queued = {}
        for worker in m.group:
            rate = 0.0 if worker == m.skewed else seen.input_rate * seen.fraction(worker)
            rate += arriving * (float(rule.share_of(worker)) if rule is not None else worker == m.skewed)
            queued[worker] = max(0, seen.queued[worker] + int(ahead_s * (rate - seen.speed)))
        return queued

    def _hand_backlog(self, m: Mitigation) -> str | None:
        if not self._any_row_may_move(m):
            return "its helpers have the state of some of its keys only, and its queued rows are of all keys"
        gifts = self._gifts(m, self._seen.queued)
        if not gifts:
            return "its helpers have no less to do by now"
        m.phase = Phase.HANDING_OVER
        self._move(m, gifts)
        return None

    def _move(self, m: Mitigation, counts: Mapping[int, int], *, back: bool = False) -> None:
        """Move queued rows of the skewed worker to its helpers, or back."""
        if not counts:
            return
        for helper, count in counts.items():
            source, target = (helper, m.skewed) if back else (m.skewed, helper)
            self._transfers.move_backlog(m, source, target, count)
        queued = self._seen.queued
        way = "come back from" if back else "move to"
        listed = ", ".join(f"{rows(count)} {way} worker {h} ({rows(queued[h])})" for h, count in counts.items())
        whose = "" if m.lender is None else f", which are worker {m.lender}'s,"
        text = f"backlog: of worker {m.skewed}'s {rows(queued[m.skewed])} queued rows{whose} {listed}"
        self._out.record(DecisionKind.CHANGED, m.skewed, m.helpers, text)

    def _keep_balance(self, m: Mitigation, gap: float, threshold: Threshold) -> str | None:
        """Phase two: start another iteration when the workloads have moved apart, in either direction (§4.3.1)."""
        seen = self._seen
        most = max(seen.workloads[h] for h in m.helpers)
        behind = most - seen.workloads[m.skewed] + m.gap_accepted
        gap -= m.gap_accepted
        if most >= seen.eta and behind >= threshold.tau:
            self._out.record(
                DecisionKind.ITERATED,
                m.skewed,
                m.helpers,
                f"next iteration: a helper of worker {m.skewed} has {rows(behind)} rows more than worker {m.skewed} "
                f"now, at least tau = {rows(threshold.tau)}",
            )
            if self._helper_is_loaded(m):
                return HELPER_IS_LOADED
            if self._settings.backlog and not m.queue_was_dry:
                return self._level(m, back=True)
            m.queue_was_dry = False
            if self._settings.first_phase is FirstPhase.OFF:
                return self._share(m)
            self._return_load(m)
            return None
        if seen.workloads[m.skewed] < seen.eta:
            return None
        test = threshold.look(gap, self._forecast(m))
        if not test.start:
            # tau grows while predictions are poor; what is queued can be evened out whatever is predicted.
            if self._settings.backlog and gap >= seen.first_tau and not m.queue_was_dry and self._any_row_may_move(m):
                self._move(m, self._gifts(m, seen.queued))
            return None
        self._out.record(
            DecisionKind.ITERATED,
            m.skewed,
            m.helpers,
            f"next iteration: worker {m.skewed} has {rows(gap)} rows more than {names(m.helpers)} again; "
            f"tau was {rows(threshold.tau)} ({test.change.value})",
        )
        if m.queue_was_dry and self._settings.first_phase is not FirstPhase.OFF:
            m.queue_was_dry = False
            return self._catch_up(m)
        return self.state_ready(m)

    def _forecast(self, m: Mitigation) -> Forecast:
        seen = self._seen
        own, others = seen.predict(m.skewed), [seen.predict(h) for h in m.helpers]
        helper = sum(other.mean for other in others) / len(others)
        rule = self._out.routing.current.owners.get(m.skewed)
        given = 1.0 - float(rule.share_of(m.skewed)) if rule is not None else 0.0
        gap_left = own.mean * (1.0 - given) - helper - own.mean * given / len(others)
        error = max(prediction.standard_error for prediction in (own, *others))
        return Forecast(error, own.mean - helper, gap_left, own.windows)

    def _gap(self, m: Mitigation) -> float:
        """phi_S - phi_H, H being the average helper."""
        loads = self._seen.workloads
        return loads[m.skewed] - sum(loads[h] for h in m.helpers) / len(m.helpers)

    def _closed(self, m: Mitigation, gap: float) -> bool:
        """Are the workloads similar, or will they be when the next table is in use?

        A table takes effect a control lag after it is sent, and the next look comes a period later: waiting for the
        gap to close first would overshoot by as much (the correction of §6.1, applied to the change of phase).
        """
        before, since = m.last_gap, self._seen.time - m.last_time
        m.last_gap, m.last_time = gap, self._seen.time
        if gap <= 0:
            return True
        if before is None or since <= 0:
            return False
        closing_per_s = (before - gap) / since
        return gap <= closing_per_s * (self.control_lag_s + self._seen.period / 2)

    def _helper_is_loaded(self, m: Mitigation) -> bool:
        """Does the helper with most to do receive so much as an owner that it should get nothing on top?"""
        return max(m.helpers, key=self._seen.workloads.__getitem__) not in self._equal_shares(m)

    def _equal_shares(self, m: Mitigation) -> dict[int, Fraction]:
        part = None
        if m.part is not None:
            loads = self._seen.key_loads(m.skewed)
            part = sum(loads.get(key, 0.0) for key in m.part)
        return record_shares(
            self._seen.predict(m.skewed).mean,
            {h: self._seen.predict(h).mean for h in m.helpers},
            part,
            self._max_denominator,
        )

    def _heavy_part(self, skewed: int) -> frozenset[Key] | None:
        """The heaviest keys; None (all of the partition) while no keys are known."""
        loads = self._seen.key_loads(skewed)
        wanted = PART_OF_LOAD * self._seen.predict(skewed).mean
        chosen: list[Key] = []
        carried = 0.0
        for key, load in loads.items():
            chosen.append(key)
            carried += load
            if carried >= wanted:
                break
        return frozenset(chosen) if chosen else None

    def _set_rule(self, m: Mitigation, shares: Shares | None) -> None:
        m.last_gap = None
        routing = self._out.routing
        if routing.set_owner(m.skewed, shares) if m.part is None else routing.set_keys(m.part, shares):
            m.version = routing.next_version

    def _waiting(self, m: Mitigation) -> str:
        return ", ".join(f"{rows(self._seen.workloads[h])} at worker {h}" for h in m.helpers)

    def _expected(self, m: Mitigation) -> str:
        horizon = rows(self._settings.horizon_rows)
        own = ", ".join(f"worker {h} {self._seen.predict(h).mean:,.1f}" for h in m.helpers)
        return (
            f"of the next {horizon} rows worker {m.skewed} is expected to receive "
            f"{self._seen.predict(m.skewed).mean:,.1f}, {own}"
        )


def _in_proportion(gifts: Mapping[int, float], max_denominator: int) -> Shares:
    """Everything to the helpers, in proportion to what each lacks."""
    total = sum(gifts.values())
    *others, most = sorted(gifts, key=lambda worker: gifts[worker])
    return Shares.of(most, in_parts({worker: gifts[worker] / total for worker in others}, max_denominator))
