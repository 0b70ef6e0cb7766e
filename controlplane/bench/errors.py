"""The one exception of the benchmark: a sentence for the person who typed `make bench`."""

from __future__ import annotations

from mirrors.domain.errors import UnderstudyError


class BenchError(UnderstudyError):
    """A run, or all of them, cannot continue; the text says what, where, why, what to do."""

    code = "bench"
