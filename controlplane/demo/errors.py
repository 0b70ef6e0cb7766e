"""The one exception of the demo: a sentence for the person who typed `make demo`."""

from __future__ import annotations

from mirrors.domain.errors import UnderstudyError


class DemoError(UnderstudyError):
    """The demo cannot continue; the text says what, where, why and what to do. Never a secret."""

    code = "demo"
