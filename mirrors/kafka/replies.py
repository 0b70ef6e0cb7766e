"""Which of kafka-python's classes reads the reply to a request."""

from __future__ import annotations

import sys
from typing import Any


def reply_of(request: Any) -> Any:
    """The reply's class stands beside the request's, under the same name.

    kafka-python's own look-up (`header.get_response_class`) holds weakly whichever class of a
    version was made last. Two threads that ask for the first time at the same moment make two, one
    is dropped, and if it was the registered one, no thread of the process finds that reply again:
    each question is a ReferenceError from then on (kafka-python 3.0.12, `VersionSubscriptable`).
    """
    kind = type(request)
    name = kind.__name__.removesuffix("Request") + "Response"
    return getattr(sys.modules[kind.__module__], name)
