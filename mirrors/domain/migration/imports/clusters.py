"""Converts a cluster's MM2 settings to a ClusterSpec: typed fields and references, no secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry, is_security
from mirrors.domain.migration.imports.secret_references import JaasLogin, as_reference, read_jaas
from mirrors.domain.schemas import registry
from mirrors.domain.settings import client_properties
from mirrors.domain.specs import ClusterSpec

_TLS_HERE = "TLS 1.2 or newer is negotiated, with the ciphers of this host"
_JVM = "it selects a part of the Java runtime; there is none here"
_TOKENS = "Understudy renews logins in time"
# What is done another way here; whatever is not in a table is refused.
_DIFFERENT = {
    "ssl.protocol": _TLS_HERE,
    "ssl.enabled.protocols": _TLS_HERE,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.truststore.password": "a truststore in PEM format needs no password",
    "ssl.keystore.password": "a keystore in PEM format needs no password",
}
_FAMILIES = {
    "sasl.login.refresh.": _TOKENS,
    "sasl.login.retry.": _TOKENS,
    "sasl.login.connect.": _TOKENS,
    "sasl.login.read.": _TOKENS,
    "sasl.kerberos.": "Kerberos is not supported, so nothing reads it",
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
_USED = "Used for the cluster {alias}."
_PROPERTIES = (
    "ssl.endpoint.identification.algorithm",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope",
)
_CONVERT = (
    "is not PEM. Run `manage.py convert_keystore`, which reports where it writes the PEM files, "
    "and name those with type PEM"
)


class ClusterReader:
    """Reads one cluster. `origins`: the entry of each field. `shared`: keys of no single flow."""

    def __init__(
        self, alias: str, entries: Entries, known: Mapping[str, str], notes: VerdictCollector
    ):
        self.origins: dict[str, Entry] = {}
        self.shared: set[str] = set()
        self._alias = alias
        self._left = {name: entry for name, entry in entries.items() if is_security(name)}
        self._roles = entries
        self._known = known
        self._notes = notes
        self._fields: dict[str, str] = {}
        self._properties: dict[str, str] = {}

    def read(self) -> ClusterSpec | None:
        """Return the spec, or None if the bootstrap servers are missing."""
        self._check_roles()
        bootstrap = self._take("bootstrap.servers")
        if bootstrap is None:
            self._notes.refuse(f"{self._alias}.bootstrap.servers", "it is missing")
            return None
        servers = ",".join(part.strip() for part in bootstrap.value.split(","))
        self._set("bootstrap_servers", bootstrap, servers)
        protocol = "PLAINTEXT"
        if (entry := self._take("security.protocol")) is not None:
            protocol = entry.value.strip().upper()
            self._set("security_protocol", entry, protocol)
        if protocol.startswith("SASL_"):
            self._read_sasl()
        if protocol.endswith("SSL"):
            self._read_tls()
        self._read_properties()
        self._read_common()
        self._read_registry()
        for entry, verdict, why in judge_unread(self._left, protocol):
            self._notes.say(entry, verdict, why)
        return ClusterSpec(alias=self._alias, properties=self._properties, **self._fields)

    def _take(self, name: str) -> Entry | None:
        return self._left.pop(name, None)

    def _set(self, field: str, entry: Entry, text: str) -> None:
        self._fields[field] = text
        self.origins[field] = entry
        self._notes.say(entry, "used", _USED.format(alias=self._alias))

    def _refuse(self, entry: Entry, reason: str) -> None:
        self._notes.say(entry, "unsupported", f"{entry.key} {reason}")

    def _refer(self, field: str, entry: Entry, text: str | None = None) -> None:
        try:
            self._set(
                field, entry, as_reference(entry.value if text is None else text, self._known)
            )
        except ValueError as error:
            self._refuse(entry, str(error))

    def _check_roles(self) -> None:
        for role in _ROLES:
            for name, entry in self._left.items():
                own = self._roles.get(role + name)
                if own is not None and own.value != entry.value:
                    self._refuse(
                        own, "differs from the cluster's own; here all clients connect the same way"
                    )
                elif own is not None and own is not entry:
                    self._notes.say(own, "used", _USED.format(alias=self._alias))
        for name, own in self._roles.items():
            prefix = next((role for role in _ROLES if name.startswith(role)), "")
            plain = name.removeprefix(prefix)
            if prefix and is_security(plain) and plain not in self._left:
                self._refuse(
                    own, "applies to one kind of client; here all clients connect the same way"
                )

    # --- SASL -------------------------------------------------------------------------------------

    def _read_sasl(self) -> None:
        entry = self._take("sasl.mechanism")
        mechanism = entry.value.strip() if entry is not None else "GSSAPI"
        if entry is None:
            missing = (
                "it is missing, and Kafka's default is GSSAPI (Kerberos), which is not supported"
            )
            self._notes.refuse(f"{self._alias}.sasl.mechanism", missing)
        else:
            self._set("sasl_mechanism", entry, mechanism)
        jaas = self._take("sasl.jaas.config")
        if jaas is None:
            self._read_oauth_keys(mechanism)
            return
        try:
            login = read_jaas(jaas.value)
            if login.kind != mechanism and not mechanism.startswith(f"{login.kind}-"):
                raise ValueError(f"has the login module of {login.kind}, not of {mechanism[:30]}")
        except ValueError as error:
            self._refuse(jaas, str(error))
            return
        self._read_login(jaas, login)

    def _read_login(self, entry: Entry, login: JaasLogin) -> None:
        user, secret = ("username", "password")
        if login.kind == "OAUTHBEARER":
            user, secret = ("clientId", "clientSecret")
        options = dict(login.options)
        name = options.pop(user, None)
        if name is None or "${" in name:
            self._refuse(entry, f"needs {user} as plain text; only secrets may be references here")
        else:
            self._set("sasl_username", entry, name)
        if (text := options.pop(secret, None)) is None:
            self._refuse(entry, f"has no {secret}")
        else:
            self._refer("sasl_password", entry, text)
        if login.kind == "OAUTHBEARER" and "scope" in options:
            self._properties["sasl.oauthbearer.scope"] = options.pop("scope")
        if options:
            names = ", ".join(sorted(options))[:100]
            self._refuse(entry, f"has options without a field here: {names}")

    def _read_oauth_keys(self, mechanism: str) -> None:
        """Read the OAuth form of Kafka 4.1 and later, which has no JAAS line."""
        user = self._take("sasl.oauthbearer.client.credentials.client.id")
        secret = self._take("sasl.oauthbearer.client.credentials.client.secret")
        if mechanism != "OAUTHBEARER" or user is None or secret is None:
            self._notes.refuse(f"{self._alias}.sasl.jaas.config", f"{mechanism[:30]} needs it")
            return
        self._set("sasl_username", user, user.value.strip())
        self._refer("sasl_password", secret)

    # --- TLS --------------------------------------------------------------------------------------

    def _read_tls(self) -> None:
        self._read_store("truststore", ("ssl_ca",), ("certificates",))
        self._read_store("keystore", ("ssl_certificate", "ssl_key"), ("certificate.chain", "key"))
        if (entry := self._take("ssl.key.password")) is not None:
            self._refuse(entry, "is not supported: enter the client's key without a passphrase")

    def _read_store(self, store: str, fields: tuple[str, ...], parts: tuple[str, ...]) -> None:
        kind, place = self._take(f"ssl.{store}.type"), self._take(f"ssl.{store}.location")
        inline = [self._take(f"ssl.{store}.{part}") for part in parts]
        for field, entry in zip(fields, inline, strict=True):
            if entry is not None:
                self._refer(field, entry)
        is_pem = kind is not None and kind.value.strip().upper() == "PEM"
        if place is not None:
            self._read_place(fields, place, is_pem=is_pem)
        if kind is not None and (is_pem or place is None):
            self._notes.say(kind, "used", _USED.format(alias=self._alias))
        elif kind is not None:
            self._refuse(kind, _CONVERT)

    def _read_place(self, fields: tuple[str, ...], place: Entry, *, is_pem: bool) -> None:
        path = place.value.strip()
        if not is_pem:
            self._refuse(place, _CONVERT)
        elif not path.startswith("/") or "${" in path:
            self._refuse(place, "must be an absolute path, as plain text")
        else:
            for field in fields:
                self._set(field, place, f"file:{path}")

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
                self._notes.say(entry, "used", _USED.format(alias=self._alias))
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
            self._notes.say(entry, "used", _USED.format(alias=self._alias))

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
                    used = _USED.format(alias=self._alias)
                    self._notes.say(entry, "unsupported" if sentence else "used", sentence or used)
                self._properties[name] = text
                self.origins[name] = given[0]


def _wanted(name: str, fields: Mapping[str, str]) -> bool:
    if name.startswith("ssl."):
        return fields.get("security_protocol", "PLAINTEXT").endswith("SSL")
    return fields.get("sasl_mechanism") == "OAUTHBEARER"
