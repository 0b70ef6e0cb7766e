"""How the last transaction of a transactional id ended: what its coordinator says, kept for later.

A broker that dies between the markers of a transaction may leave some out for good; what hangs then
has to be ended as the whole was. The coordinator knows that until the next fence, behind which its
state is Empty. So where it is still needed the fence itself keeps it: in the transaction's timeout,
which the coordinator writes down in one record with the new epoch and tells whoever asks (KIP-664).
Two timeouts that no transaction of ours has otherwise are such notes. As long as one stands there,
this id writes nothing: a transaction that is open then has only what hangs in it.
"""

from __future__ import annotations

ONGOING = "Ongoing"
# KIP-664's words for how a transaction ends.
_COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")

# All that we write is in transactions of a minute and more.
NOTES_MS = {True: 59_999, False: 59_998}
_NOTES = {timeout_ms: committed for committed, timeout_ms in NOTES_MS.items()}


def note_of(timeout_ms: int) -> bool | None:
    """Whether what hangs was committed, as a fence has kept it; None: that was an ordinary one."""
    return _NOTES.get(timeout_ms)


class LastEnd:
    """What was learned by asking the coordinator, once or more often, before the fence.

    `bumps`: each transaction of this cluster has an epoch of its own (version 2, KIP-890), if its
    client knows that; librdkafka does not. `orderly`: under this id no transaction begins before
    the last one is seen to have ended in every partition.
    """

    def __init__(self, *, bumps: bool, orderly: bool) -> None:
        self._bumps = bumps
        self._orderly = orderly
        self._open_under: int | None = None
        self._epochs = range(0)
        # None: not known.
        self.committed: bool | None = None

    def learn(self, state: str, epoch: int, timeout_ms: int) -> None:
        """What it says now; `epoch` is that of the producer."""
        note = note_of(timeout_ms)
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
        """Of a transaction that hangs, written under this epoch: whether it was committed; None:
        that is not known.

        Meant for topics to which each commit writes: while one hangs there nothing but its end is
        written.
        """
        return self.committed if epoch in self._epochs else None

    def _aborted(self, epoch: int) -> range:
        if self._open_under is not None:
            # By a fence, which moves the epoch on once or twice.
            return range(self._open_under, self._open_under + 1)
        # By who had it open, or by the coordinator since it was late.
        return range(epoch - 1, epoch + self._orderly)

    def _of_client(self, epoch: int) -> range:
        """The epochs under which the last transaction may have been written that ended itself."""
        return range(epoch - (self._bumps and not self._orderly), epoch + 1)

    def _set(self, committed: bool | None, epochs: range) -> None:
        self.committed, self._epochs = committed, epochs
