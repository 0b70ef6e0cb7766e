"""References to secrets: `env:NAME`, `file:/path`, `properties:/path:key`. Nothing is resolved."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterable

_REFERENCE = re.compile(
    r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\x00-\x1f]+|properties:/[^\x00-\x1f:]+:[^\x00-\x1f:]+"
)
_STORE = re.compile(rf"store:/[^\x00-\x1f:]+(?::({_REFERENCE.pattern}))?")
_LONGEST = 500


def reference_problems(text: str) -> list[str]:
    """Check a reference. The sentences never contain it: it may be the secret itself."""
    if not _REFERENCE.fullmatch(text) or len(text) > _LONGEST:
        return [
            "Enter a reference, not the value: env:NAME for an environment variable, or "
            "file:/absolute/path for a file on the hosts where the flows run "
            "(properties:/path:key for one key of a file of Java properties)."
        ]
    if not text.startswith("env:") and (".." in text.split("/") or "//" in text):
        return [
            "The path of a file reference must be absolute, without .. and without double slashes."
        ]
    return []


def store_problems(text: str) -> list[str]:
    """Check a reference of a TLS field, which may also be a key store of Java."""
    store = _STORE.fullmatch(text)
    if store is None or len(text) > _LONGEST:
        if text.startswith("store:"):
            return [
                "A key store is written store:/absolute/path:REFERENCE, with the reference of its "
                "password: env:NAME or file:/path."
            ]
        return reference_problems(text)
    path = text.removeprefix("store:").partition(":")[0]
    problems = reference_problems(f"file:{path}")
    return problems + (reference_problems(store[1]) if store[1] else [])


@dataclasses.dataclass(frozen=True)
class Reference:
    """A reference as the value of a setting. Errors never contain it."""

    description = "a reference to a secret, env:NAME or file:/absolute/path, never the secret"

    def parse(self, text: str) -> str:
        word = text.strip()
        if reference_problems(word):
            raise ValueError(f"must be {self.description}")
        return word


def secret_of(reference: str) -> str:
    """What a reference names, so that two references to one secret can be compared.

    - A variable of the environment: the reference itself.
    - A file, or one key of it: the path without `.` and `..`. All keys of a file count as one
      secret. A link to another file is not followed: that needs the host where the file is.
    """
    scheme, _, rest = reference.partition(":")
    if scheme == "env":
        return reference
    path = rest.rpartition(":")[0] if scheme == "properties" else rest
    return posixpath.normpath(path)


def same_secret(reference: str, others: Iterable[str]) -> bool:
    """Whether one of the other references names the same secret. Empty ones name none."""
    return secret_of(reference) in {secret_of(other) for other in others if other}
