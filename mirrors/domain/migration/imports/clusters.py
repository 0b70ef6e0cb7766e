"""Converts a cluster's MM2 settings to a ClusterSpec: typed fields and references, no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from mirrors.domain.migration.imports.cluster_login import USED, LoginReader
from mirrors.domain.migration.imports.mm2_precedence import Entry, is_security
from mirrors.domain.migration.imports.secret_references import as_reference
from mirrors.domain.schemas import registry
from mirrors.domain.settings import client_properties
from mirrors.domain.specs import ClusterSpec

_TLS_HERE = "TLS 1.2 or newer is negotiated, with the ciphers of this host"
_JVM = "it selects a part of the Java runtime; there is none here"
_TOKENS = "Understudy renews logins in time"
# What is done another way here; whatever is not in a table is refused.
_DIFFERENT = {
    "ssl.protocol": _TLS_HERE,
    "ssl.cipher.suites": _TLS_HERE,
    "ssl.provider": _JVM,
    "ssl.enabled.protocols": _TLS_HERE,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.truststore.password": "a truststore without a file, or in PEM format, needs no password",
    "ssl.keystore.password": "a keystore without a file, or in PEM format, needs no password",
}
_FAMILIES = {
    "sasl.login.refresh.": _TOKENS,
    "sasl.login.retry.": _TOKENS,
    "sasl.login.connect.": _TOKENS,
    "sasl.login.read.": _TOKENS,
    "sasl.kerberos.": "it belongs to a login with Kerberos, which no client has here",
}
_OAUTH_HANDLER = "OAuthBearerLoginCallbackHandler"

Judgement = tuple[Entry, Literal["different", "unsupported"], str]


def judge_unread(entries: Mapping[str, Entry], protocol: str) -> Iterator[Judgement]:
    """Yield a verdict for each of a cluster's settings that was not used."""
    for name, entry in entries.items():
        family = next((why for start, why in _FAMILIES.items() if name.startswith(start)), "")
        handler = name == "sasl.login.callback.handler.class"
        if _idle(name, protocol):
            yield entry, "different", f"{protocol[:30]} does not use it"
        elif why := _DIFFERENT.get(name) or family:
            yield entry, "different", why
        elif handler and entry.value.strip().endswith(_OAUTH_HANDLER):
            yield entry, "different", "Understudy fetches tokens itself"
        else:
            sentence = client_properties.refusal("cluster", name, "", shown=entry.key)
            why = sentence or f"{entry.key} is not supported for this security protocol"
            yield entry, "unsupported", why


def _idle(name: str, protocol: str) -> bool:
    if name.startswith("ssl."):
        return not protocol.endswith("SSL")
    return name.startswith("sasl.") and not protocol.startswith("SASL_")


_ROLES = ("producer.", "consumer.", "admin.")
# Java's clients accept it before a host, and ignore it.
_PROTOCOL = re.compile(r"^[0-9A-Za-z%._-]*://")
_PROPERTIES = (
    "ssl.endpoint.identification.algorithm",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope",
)
_STORES = frozenset({"JKS", "PKCS12"})


class ClusterReader(LoginReader):
    """Reads one cluster."""

    def read(self) -> ClusterSpec | None:
        """Return the spec, or None if the bootstrap servers are missing."""
        self._check_roles()
        bootstrap = self._take("bootstrap.servers")
        if bootstrap is None:
            self._notes.refuse(f"{self._alias}.bootstrap.servers", "it is missing")
            return None
        given = [part.strip() for part in bootstrap.value.split(",") if part.strip()]
        servers = ",".join(_PROTOCOL.sub("", part) for part in given)
        if "${" in servers:
            why = "is a reference; an address is no secret: write host:port as plain text"
            self._refuse(bootstrap, why)
        else:
            self._set("bootstrap_servers", bootstrap, servers)
        if servers != ",".join(given):
            why = "used without what is before ://, which Kafka's clients ignore, too"
            self._notes.say(bootstrap, "different", f"{why}: security.protocol counts")
        protocol = "PLAINTEXT"
        if (entry := self._take("security.protocol")) is not None:
            protocol = entry.value.strip().upper()
            self._set("security_protocol", entry, protocol)
        if protocol.startswith("SASL_"):
            self.read_sasl()
        if protocol.endswith("SSL"):
            self._read_tls()
        self._read_properties()
        self._read_common()
        self._read_registry()
        for entry, verdict, why in judge_unread(self._left, protocol):
            self._notes.say(entry, verdict, why)
        if "bootstrap_servers" not in self._fields:
            return None
        return ClusterSpec(alias=self._alias, properties=self._properties, **self._fields)

    def _check_roles(self) -> None:
        for role in _ROLES:
            for name, entry in self._left.items():
                own = self._roles.get(role + name)
                if own is not None and own.value != entry.value:
                    self._refuse(
                        own, "differs from the cluster's own; here all clients connect the same way"
                    )
                elif own is not None and own is not entry:
                    self._notes.say(own, "used", USED.format(alias=self._alias))
        for name, own in self._roles.items():
            prefix = next((role for role in _ROLES if name.startswith(role)), "")
            plain = name.removeprefix(prefix)
            if prefix and is_security(plain) and plain not in self._left:
                self._refuse(
                    own, "applies to one kind of client; here all clients connect the same way"
                )

    # --- TLS --------------------------------------------------------------------------------------

    def _read_tls(self) -> None:
        self._read_store("truststore", ("ssl_ca",), ("certificates",))
        self._read_store("keystore", ("ssl_certificate", "ssl_key"), ("certificate.chain", "key"))
        if (entry := self._take("ssl.key.password")) is not None:
            self._refuse(entry, "is not supported for PEM: enter the key without a passphrase")

    def _read_store(self, store: str, fields: tuple[str, ...], parts: tuple[str, ...]) -> None:
        kind, place = self._take(f"ssl.{store}.type"), self._take(f"ssl.{store}.location")
        inline = [self._take(f"ssl.{store}.{part}") for part in parts]
        for field, entry in zip(fields, inline, strict=True):
            if entry is not None:
                self._refer(field, entry)
        word = "" if kind is None else kind.value.strip().upper()
        if place is not None:
            reference = self._stored(store, place, word)
            for field in fields if reference else ():
                self._set(field, place, str(reference))
        if kind is not None and place is not None and word not in {"PEM", *_STORES}:
            self._refuse(kind, "must be PEM, JKS or PKCS12")
        elif kind is not None:
            self._notes.say(kind, "used", USED.format(alias=self._alias))

    def _stored(self, store: str, place: Entry, kind: str) -> str | None:
        """Return the reference of a store's file; with JKS and PKCS12, also of its password."""
        path = place.value.strip()
        if not path.startswith("/") or "${" in path or ":" in path:
            self._refuse(place, "must be an absolute path without a colon, as plain text")
            return None
        if kind == "PEM":
            return f"file:{path}"
        password = self._take(f"ssl.{store}.password")
        key = self._take("ssl.key.password") if store == "keystore" else None
        if key is not None and password is not None and key.value != password.value:
            why = "differs from the store's: give both the same with `keytool -keypasswd`"
            self._refuse(key, why)
        elif key is not None:
            self._notes.say(key, "used", "the password of the store opens its key")
            password = password or key
        if password is None:
            return f"store:{path}"
        reference = self._reference(password)
        if reference is None:
            self._notes.say(place, "used", USED.format(alias=self._alias))
            return None
        self._notes.say(password, "used", USED.format(alias=self._alias))
        return f"store:{path}:{reference}"

    # --- the rest ---------------------------------------------------------------------------------

    def _read_properties(self) -> None:
        for name in _PROPERTIES:
            entry = self._left.get(name)
            if entry is None:
                continue
            text = entry.value.strip()
            if name.startswith("ssl.") and text.lower() in {"", "https"}:
                text = "none" if not text else "https"
            sentence = client_properties.refusal("cluster", name, text, shown=entry.key)
            if sentence is not None:
                self._notes.say(entry, "unsupported", sentence)
            elif _wanted(name, self._fields):
                self._properties[name] = text
                self.origins[name] = entry
                self._notes.say(entry, "used", USED.format(alias=self._alias))
            else:
                continue
            del self._left[name]

    def _read_registry(self) -> None:
        """Read the schema registry of a file that Understudy exported."""
        for key, entry in self._roles.items():
            name = key.removeprefix(registry.EXPORTED)
            if name == key or name not in client_properties.CLUSTER:
                continue
            text = entry.value.strip()
            if name in registry.REFERENCES:
                try:
                    text = as_reference(text, self._known)
                except ValueError as error:
                    self._refuse(entry, str(error))
                    continue
            if why := client_properties.refusal("cluster", name, text, shown=entry.key):
                self._notes.say(entry, "unsupported", why)
                continue
            self._properties[name] = text
            self.origins[name] = entry
            self._notes.say(entry, "used", USED.format(alias=self._alias))

    def _read_common(self) -> None:
        """Make a property that all kinds of clients share a property of the cluster."""
        for name in client_properties.COMMON:
            given = [self._roles[role + name] for role in _ROLES if role + name in self._roles]
            texts = {entry.value.strip() for entry in given}
            if len(given) == len(_ROLES) and len(texts) == 1:
                text = texts.pop()
                sentence = client_properties.refusal("cluster", name, text, shown=given[0].key)
                for entry in given:
                    self.shared.add(entry.key)
                    used = USED.format(alias=self._alias)
                    self._notes.say(entry, "unsupported" if sentence else "used", sentence or used)
                self._properties[name] = text
                self.origins[name] = given[0]


def _wanted(name: str, fields: Mapping[str, str]) -> bool:
    if name.startswith("ssl."):
        return fields.get("security_protocol", "PLAINTEXT").endswith("SSL")
    return fields.get("sasl_mechanism") == "OAUTHBEARER"
