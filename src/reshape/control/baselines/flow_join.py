"""Flow-Join (Rödiger et al., ICDE 2016) as the paper adapts it (§7.1): heavy keys found once, at the start."""

from __future__ import annotations

from fractions import Fraction

from reshape.control.baselines.once import Move, PairingBrain
from reshape.control.outbox import rows
from reshape.control.routing import Shares
from reshape.control.story import DecisionKind


class FlowJoin(PairingBrain):
    """After the detection period the overloaded keys of each skewed worker are shared with its helper, row by row in
    turns. That is decided once, when the first workers are skewed: neither loads nor changes of the distribution are
    looked at again."""

    _decided = False

    def _decide(self) -> None:
        if self._decided:
            return
        horizon = self._settings.horizon_rows
        fair = horizon / self._profile.workers
        for skewed, helper in self._pair():
            self._decided = True
            heavy = {k: load for k, load in self._seen.key_loads(skewed).items() if load > fair}
            if not heavy:
                self._out.record(
                    DecisionKind.REFUSED,
                    skewed,
                    (helper,),
                    f"none of worker {skewed}'s keys alone has more than a worker's fair part "
                    f"({fair:,.1f} of {rows(horizon)} rows)",
                )
                continue
            half = Shares.of(skewed, {helper: Fraction(1, 2)})
            listed = ", ".join(f"{key!r} ({load:,.1f})" for key, load in heavy.items())
            self._out.record(
                DecisionKind.STARTED,
                skewed,
                (helper,),
                f"overloaded keys of worker {skewed} after the detection period: {listed} of {rows(horizon)} rows; "
                f"every other row of them goes to worker {helper} from now on",
            )
            self._send(Move(skewed, helper, keys=tuple((key, half) for key in heavy)))
