"""Flux (Shah et al., ICDE 2003) as the paper adapts it (§7.1): whole mini-partitions move, chosen by load."""

from __future__ import annotations

from reshape.control.baselines.once import Move, PairingBrain
from reshape.control.profile import OperatorProfile
from reshape.control.reshaping.shares import choose_keys
from reshape.control.routing import Shares
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind


class Flux(PairingBrain):
    """Adaptive, but its unit is fixed beforehand: a mini-partition, never part of a key.

    At every report the pairs are looked at again; mini-partitions of the skewed worker move until no set of them would
    make the expected loads more equal.
    """

    def __init__(self, profile: OperatorProfile, settings: StrategySettings) -> None:
        super().__init__(profile, settings)
        self._moved: dict[int, int] = {}  # mini-partition -> helper

    def _decide(self) -> None:
        self._pair()
        pending = {move.skewed for move in self._moves.values()}
        for skewed, helper in self._helper_of.items():
            if skewed not in pending and self._still_skewed(skewed, helper):
                self._move_some(skewed, helper)

    def _lost(self, move: Move, reason: str) -> None:
        super()._lost(move, reason)
        for bucket, _ in move.buckets:
            self._moved.pop(bucket, None)

    def _still_skewed(self, skewed: int, helper: int) -> bool:
        loads = self._seen.workloads
        return loads[skewed] >= self._seen.eta and loads[skewed] - loads[helper] >= self._seen.first_tau

    def _move_some(self, skewed: int, helper: int) -> None:
        seen = self._seen
        total = seen.predict(skewed).mean
        loads = seen.bucket_loads(skewed)
        gone = sum(load for bucket, load in loads.items() if bucket in self._moved)
        own, other = total - gone, seen.predict(helper).mean + gone
        here = {bucket: load for bucket, load in loads.items() if bucket not in self._moved}
        chosen = choose_keys(here, (own - other) / 2)
        buckets = sorted(bucket for bucket in chosen.keys if isinstance(bucket, int))
        if not buckets:
            text = f"no set of worker {skewed}'s mini-partitions would make it and worker {helper} more equal"
            self._out.record(DecisionKind.REFUSED, skewed, (helper,), text, "no set helps")
            return
        self._moved.update(dict.fromkeys(buckets, helper))
        self._out.record(
            DecisionKind.STARTED,
            skewed,
            (helper,),
            f"mini-partitions {buckets} of worker {skewed} move to worker {helper}: expected loads change from "
            f"{own:,.1f} and {other:,.1f} to {own - chosen.load:,.1f} and {other + chosen.load:,.1f}",
        )
        rules = tuple((bucket, Shares.whole(helper)) for bucket in buckets)
        self._send(Move(skewed, helper, buckets=rules))
