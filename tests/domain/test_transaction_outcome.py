"""How a transaction ended, according to its coordinator: stored over a fence, or unknown."""

from __future__ import annotations

import pytest

from mirrors.domain.transaction_outcome import NOTES_MS, LastTransaction
from mirrors.kafka.producers.transactions import TRANSACTION_TIMEOUT_MS

PLAIN = TRANSACTION_TIMEOUT_MS


def of(
    *said: tuple[str, int, int], bumps: bool = True, orderly: bool = False
) -> dict[int, bool | None]:
    end = LastTransaction(bumps=bumps, orderly=orderly)
    for state, epoch, timeout_ms in said:
        end.update(state, epoch, timeout_ms)
    return {epoch: known for epoch in range(12) if (known := end.of(epoch)) is not None}


def test_a_commit_is_of_the_epoch_before_where_each_transaction_has_one() -> None:
    # A client that does not know that wrote under this very one.
    assert of(("CompleteCommit", 7, PLAIN)) == {6: True, 7: True}
    assert of(("CompleteCommit", 7, PLAIN), bumps=False) == {7: True}
    assert of(("CompleteCommit", 7, PLAIN), orderly=True) == {7: True}


def test_an_abort_by_the_fence_is_of_the_epoch_that_was_seen_to_be_open() -> None:
    for orderly in (False, True):
        said = of(("Ongoing", 5, PLAIN), ("CompleteAbort", 7, PLAIN), orderly=orderly)
        assert said == {5: False}


def test_an_abort_by_who_had_it_open() -> None:
    assert of(("CompleteAbort", 7, PLAIN)) == {6: False}
    assert of(("CompleteAbort", 7, PLAIN), orderly=True) == {6: False, 7: False}
    # What hangs may be of the transaction before, which was committed under the same epoch.
    assert of(("CompleteAbort", 7, PLAIN), bumps=False) == {}
    assert of(("CompleteAbort", 7, PLAIN), bumps=False, orderly=True) == {6: False, 7: False}


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_note_counts_whatever_became_of_the_mending(state: str, committed: bool) -> None:
    said = of((state, 3, NOTES_MS[committed]))
    assert said == {0: committed, 1: committed, 2: committed, 3: committed}


def test_without_a_note_an_empty_state_says_nothing() -> None:
    assert of(("Empty", 7, PLAIN)) == {}
    # He committed meanwhile, or aborted.
    assert of(("CompleteCommit", 7, PLAIN), ("Ongoing", 7, PLAIN), ("Empty", 9, PLAIN)) == {}


def test_no_ordinary_transaction_looks_like_a_note() -> None:
    assert max(NOTES_MS.values()) < TRANSACTION_TIMEOUT_MS
