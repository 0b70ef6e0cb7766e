"""How the last transaction of a transactional id ended, read from its coordinator.

- A broker that dies while it writes a transaction's markers may leave some out permanently. The
  hanging part must end as the whole transaction did.
- The coordinator knows the outcome until the next fence; then its state is Empty. So the fence
  itself stores it: in the transaction timeout, which the coordinator writes in one record with the
  new epoch and reports to clients (KIP-664).
- Two timeouts, which no transaction uses otherwise, are such notes. While one is stored, this id
  writes nothing: a transaction that is open then has only the hanging part.
"""

from __future__ import annotations

ONGOING = "Ongoing"
# KIP-664's names of the outcomes.
_COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")

# All writing transactions have timeouts of a minute or more.
NOTES_MS = {True: 59_999, False: 59_998}
_NOTES = {timeout_ms: committed for committed, timeout_ms in NOTES_MS.items()}


def stored_outcome(timeout_ms: int) -> bool | None:
    """Return whether the hanging transaction was committed, as a fence stored it, or None."""
    return _NOTES.get(timeout_ms)


class LastTransaction:
    """The outcome as read from the coordinator, once or more often, before the fence.

    - `bumps`: each transaction on this cluster has its own epoch (version 2, KIP-890), if its
      client supports that; librdkafka does not.
    - `orderly`: under this id no transaction begins before the last one has ended in every
      partition.
    """

    def __init__(self, *, bumps: bool, orderly: bool) -> None:
        self._bumps = bumps
        self._orderly = orderly
        self._open_under: int | None = None
        self._epochs = range(0)
        # None: unknown.
        self.committed: bool | None = None

    def update(self, state: str, epoch: int, timeout_ms: int) -> None:
        """Process the coordinator's state; `epoch` is the producer's."""
        note = stored_outcome(timeout_ms)
        if note is not None:
            self._set(note, range(epoch + 1))
        elif state == ONGOING:
            self._open_under = epoch
            self._set(None, range(0))
        elif state in _COMMITTED:
            self._set(True, self._of_client(epoch))
        elif state in _ABORTED and (self._bumps or self._orderly):
            self._set(False, self._aborted(epoch))

    def of(self, epoch: int) -> bool | None:
        """Return whether a hanging transaction of this epoch was committed; None if unknown.

        For topics to which each commit writes: while one hangs there, only its end is written.
        """
        return self.committed if epoch in self._epochs else None

    def _aborted(self, epoch: int) -> range:
        if self._open_under is not None:
            # Aborted by a fence, which raises the epoch once or twice.
            return range(self._open_under, self._open_under + 1)
        # Aborted by its client, or by the coordinator after the timeout.
        return range(epoch - 1, epoch + self._orderly)

    def _of_client(self, epoch: int) -> range:
        """Return the possible epochs of the last transaction that its client ended."""
        return range(epoch - (self._bumps and not self._orderly), epoch + 1)

    def _set(self, committed: bool | None, epochs: range) -> None:
        self.committed, self._epochs = committed, epochs
