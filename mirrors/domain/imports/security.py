"""Security settings that no field of a cluster stands for: done another way here, or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from mirrors.domain.imports.mm2_file import Entry
from mirrors.domain.keys import client_keys

_TLS_HERE = "TLS 1.2 or newer is negotiated, with the ciphers of this machine"
_JVM = "it chooses a part of the Java runtime; there is none here"
_TOKENS = "logins are renewed by Understudy in good time"
# What is done another way here; whatever is not in a table is refused.
_DIFFERENT = {
    "ssl.protocol": _TLS_HERE,
    "ssl.enabled.protocols": _TLS_HERE,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.truststore.password": "a truststore in PEM form needs no password",
    "ssl.keystore.password": "a keystore in PEM form needs no password",
}
_FAMILIES = {
    "sasl.login.refresh.": _TOKENS,
    "sasl.login.retry.": _TOKENS,
    "sasl.login.connect.": _TOKENS,
    "sasl.login.read.": _TOKENS,
    "sasl.kerberos.": "Kerberos is not among the mechanisms here, so nothing reads it",
}
_OAUTH_HANDLER = "OAuthBearerLoginCallbackHandler"

Judgement = tuple[Entry, Literal["different", "unsupported"], str]


def judge_unread(entries: Mapping[str, Entry], protocol: str) -> Iterator[Judgement]:
    """A verdict for each of a cluster's settings that was not used."""
    for name, entry in entries.items():
        family = next((why for start, why in _FAMILIES.items() if name.startswith(start)), "")
        handler = name == "sasl.login.callback.handler.class"
        if _idle(name, protocol):
            yield entry, "different", f"{protocol[:30]} makes no use of it"
        elif why := _DIFFERENT.get(name) or family:
            yield entry, "different", why
        elif handler and entry.value.strip().endswith(_OAUTH_HANDLER):
            yield entry, "different", "tokens are fetched by Understudy itself"
        else:
            sentence = client_keys.refusal("cluster", name, "", shown=entry.key)
            why = sentence or f"{entry.key} is not taken for this security protocol"
            yield entry, "unsupported", why


def _idle(name: str, protocol: str) -> bool:
    if name.startswith("ssl."):
        return not protocol.endswith("SSL")
    return name.startswith("sasl.") and not protocol.startswith("SASL_")
