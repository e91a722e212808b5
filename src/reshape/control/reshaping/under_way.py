"""State and backlog transfers under way: who has answered, who is late, who already holds which state."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from reshape.control.events import BacklogMoved, StateTransferred, TransferFailed
from reshape.control.outbox import Outbox
from reshape.control.reshaping.mitigation import Mitigation, Transfer, TransferKind
from reshape.control.routing import Key
from reshape.control.sensing.migration import MigrationTime
from reshape.control.sensing.observation import Observation
from reshape.control.settings import StrategySettings

# A transfer is late when it takes so many times what was expected, but never before the settings' time limit.
LATE_FACTOR = 4.0


class TransfersUnderWay:
    """Opens transfers for mitigations and books their answers. Answers to unknown transfers are ignored: they come
    from transfers that were given up."""

    def __init__(self, out: Outbox, seen: Observation, settings: StrategySettings) -> None:
        self._out = out
        self._seen = seen
        self._settings = settings
        self._open: dict[int, Transfer] = {}
        self._replicas: dict[tuple[int, int], frozenset[Key] | None] = {}
        self.time = MigrationTime(settings.state_bytes_per_s)

    def expected_s(self, skewed: int, helpers: int) -> float:
        """M for this worker's whole state."""
        return self.time.seconds(self._seen.state_bytes(skewed), helpers)

    def has_replica(self, skewed: int, helper: int, keys: frozenset[Key] | None) -> bool:
        """Has the helper got this part of the skewed worker's immutable state already?"""
        if skewed == helper:
            return True
        if (skewed, helper) not in self._replicas:
            return False
        held = self._replicas[skewed, helper]
        return held is None or (keys is not None and keys <= held)

    def replicate(self, m: Mitigation, helpers: tuple[int, ...], keys: frozenset[Key] | None) -> None:
        size = self._seen.state_bytes(m.owner)
        transfer = self._out.replicate(m.owner, helpers, keys)
        self._book(m, transfer, TransferKind.REPLICA, helpers, size, keys)

    def hand_over(self, m: Mitigation, helper: int, keys: frozenset[Key], *, to_helper: bool) -> None:
        source, target = (m.skewed, helper) if to_helper else (helper, m.skewed)
        transfer = self._out.hand_over(source, target, keys)
        self._book(m, transfer, TransferKind.HAND_OVER, (target,), self._seen.state_bytes(source), keys)
        self._open[transfer].to_helper = to_helper
        # The state leaves when the source has processed what was sent to it before the markers.
        queued_s = self._seen.backlog_left_s(source)
        self._open[transfer].deadline += queued_s if queued_s < inf else 0.0

    def move_backlog(self, m: Mitigation, source: int, target: int, rows: int) -> None:
        transfer = self._out.move_backlog(source, target, m.owner, rows)
        self._book(m, transfer, TransferKind.BACKLOG, (target,), 0, None)
        self._open[transfer].rows = rows

    def _book(
        self,
        m: Mitigation,
        transfer: int,
        kind: TransferKind,
        waiting: Iterable[int],
        size: int,
        keys: frozenset[Key] | None,
    ) -> None:
        helpers = set(waiting)
        now = self._out.time
        limit = max(self._settings.transfer_timeout_s, LATE_FACTOR * self.time.seconds(size, len(helpers)))
        self._open[transfer] = Transfer(
            transfer, kind, m.skewed, helpers, now, now + limit, size, 0, keys, owner=m.owner
        )
        m.transfers.add(transfer)

    def arrived(self, event: StateTransferred) -> Transfer | None:
        """Book an acknowledgement."""
        transfer = self._open.get(event.transfer)
        if transfer is None or event.helper not in transfer.waiting:
            return None
        transfer.waiting.discard(event.helper)
        transfer.answered += 1
        self.time.learn(event.bytes, transfer.answered, event.seconds)
        if transfer.kind is TransferKind.REPLICA:
            held = self._replicas.get((transfer.owner, event.helper), frozenset())
            both = None if held is None or transfer.keys is None else held | transfer.keys
            self._replicas[transfer.owner, event.helper] = both
        return transfer

    def failed(self, event: TransferFailed) -> Transfer | None:
        """Book a failure for one helper."""
        transfer = self._open.get(event.transfer)
        if transfer is None or event.helper not in transfer.waiting:
            return None
        transfer.waiting.discard(event.helper)
        return transfer

    def moved(self, event: BacklogMoved) -> Transfer | None:
        """Book queued rows that have moved."""
        transfer = self._open.get(event.transfer)
        if transfer is None or transfer.kind is not TransferKind.BACKLOG:
            return None
        transfer.waiting.clear()
        return transfer

    def close(self, m: Mitigation, transfer: Transfer) -> None:
        self._open.pop(transfer.id, None)
        m.transfers.discard(transfer.id)

    def late(self) -> list[Transfer]:
        return [transfer for transfer in self._open.values() if self._out.time >= transfer.deadline]

    def abandon(self, m: Mitigation, reason: str) -> None:
        """Give up everything under way for a mitigation."""
        for transfer in list(m.transfers):
            self._open.pop(transfer, None)
            self._out.cancel(transfer, reason)
        m.transfers.clear()
