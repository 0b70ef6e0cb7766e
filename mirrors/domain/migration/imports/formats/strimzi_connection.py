"""Connection settings of a Strimzi cluster: TLS, logins, and Secrets as mounted files."""

from __future__ import annotations

import fnmatch

from mirrors.domain.migration.imports.formats.yaml_json import Tree
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry
from mirrors.domain.migration.imports.secret_references import jaas_line


class FieldReader:
    def __init__(self, tree: Tree, notes: VerdictCollector) -> None:
        self._notes = notes
        self._paths = {id(leaf): path for path, leaf in tree.leaves()}

    def entry(self, leaf: Tree) -> Entry:
        return Entry(leaf.text or "", leaf.number, self._paths[id(leaf)])

    def text(self, tree: Tree | None, name: str) -> str:
        """Return the field's text, empty if missing, and mark it as used."""
        leaf = tree.at(name) if tree else None
        if leaf is None or leaf.text is None:
            return ""
        self._notes.say(self.entry(leaf), "used", "used unchanged")
        return leaf.text


_CA = "ca.crt"
_SECRETS = "/run/secrets"
_SASL = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}


class LoginReader:
    def __init__(self, leaves: FieldReader, notes: VerdictCollector) -> None:
        self._leaves = leaves
        self._notes = notes

    def read(self, tree: Tree, found: Entries) -> None:
        """Add the cluster's security to `found`, as MM2 settings."""
        tls, login = tree.at("tls"), tree.at("authentication")
        at = (tls or login or tree).number
        kind = self._leaves.text(login, "type")
        if tls is not None and tls.text is not None:
            self._notes.say(self._leaves.entry(tls), "used", "used: TLS with the system's CAs")
        if tls is not None:
            self._read_ca(tls, found)
        sasl = kind not in {"", "tls"}
        protocol = f"{'SASL_' if sasl else ''}{'SSL' if tls else 'PLAINTEXT'}"
        found["security.protocol"] = Entry(protocol, at, "security.protocol (of tls and type)")
        if login is None:
            return
        if kind == "tls":
            self._read_certificate(login, found)
        elif kind in _SASL:
            self._read_password(login, _SASL[kind], found)
        elif kind == "oauth":
            self._read_oauth(login, found)
        elif kind == "custom":
            config = login.at("config")
            for name, leaf in config.fields.items() if config else ():
                found[name] = self._leaves.entry(leaf)
            self._leaves.text(login, "sasl")
        else:
            why = f"authentication of the type {kind[:30]} is not supported"
            self._notes.say(self._leaves.entry(login.fields["type"]), "unsupported", why)

    def _read_ca(self, tls: Tree, found: Entries) -> None:
        trusted = tls.at("trustedCertificates")
        items = trusted.items if trusted else ()
        if len(items) > 1:
            self._refuse_all(
                items[1:], "only one CA file is supported: put all certificates into it"
            )
        for item in items[:1]:
            pattern = item.at("pattern")
            if pattern is not None and item.at("certificate") is None:
                found["ssl.truststore.certificates"] = self._matching(item, pattern)
            else:
                found["ssl.truststore.certificates"] = self._secret(item, "certificate")
            found["ssl.truststore.type"] = Entry(
                "PEM", item.number, "ssl.truststore.type (Strimzi)"
            )

    def _refuse_all(self, items: tuple[Tree, ...], why: str) -> None:
        for item in items:
            for _, leaf in item.leaves():
                self._notes.say(self._leaves.entry(leaf), "unsupported", why)

    def _read_certificate(self, login: Tree, found: Entries) -> None:
        pair = login.at("certificateAndKey")
        if pair is not None:
            found["ssl.keystore.certificate.chain"] = self._secret(pair, "certificate")
            found["ssl.keystore.key"] = self._secret(pair, "key")
            found["ssl.keystore.type"] = Entry("PEM", pair.number, "ssl.keystore.type (Strimzi)")

    def _read_password(self, login: Tree, mechanism: str, found: Entries) -> None:
        number = login.number
        secret = login.at("passwordSecret") or Tree(number)
        options = {"username": self._leaves.text(login, "username")}
        options["password"] = self._secret(secret, "password").value
        found["sasl.mechanism"] = Entry(mechanism, number, "sasl.mechanism (of the type)")
        line = jaas_line(mechanism.partition("-")[0], options)
        found["sasl.jaas.config"] = Entry(line, number, "sasl.jaas.config (of authentication)")

    def _read_oauth(self, login: Tree, found: Entries) -> None:
        number = login.number
        secret = login.at("clientSecret") or Tree(number)
        options = {"clientId": self._leaves.text(login, "clientId")}
        options["clientSecret"] = self._secret(secret, "key").value
        if scope := self._leaves.text(login, "scope"):
            options["scope"] = scope
        extensions = login.at("saslExtensions")
        for name in extensions.fields if extensions else ():
            options[f"extension_{name}"] = self._leaves.text(extensions, name)
        line = jaas_line("OAUTHBEARER", options)
        found["sasl.mechanism"] = Entry("OAUTHBEARER", number, "sasl.mechanism (of the type)")
        found["sasl.jaas.config"] = Entry(line, number, "sasl.jaas.config (of authentication)")
        if (leaf := login.at("tokenEndpointUri")) is not None:
            found["sasl.oauthbearer.token.endpoint.url"] = self._leaves.entry(leaf)

    def _matching(self, item: Tree, pattern: Tree) -> Entry:
        """Return the file that Strimzi writes its CA to, if the pattern matches its name."""
        if not fnmatch.fnmatchcase(_CA, pattern.text or ""):
            why = (
                f"only one CA file is supported, and {_CA} does not match: write certificate: NAME"
            )
            self._notes.say(self._leaves.entry(pattern), "unsupported", why)
            return Entry("${dir:/run/secrets:missing}", pattern.number, "pattern")
        entry = self._secret(item, "pattern", key=_CA)
        why = (
            f"one CA file is read here: {_CA} of the Secret. If others match too, put their "
            "certificates into it"
        )
        self._notes.say(self._leaves.entry(pattern), "different", why)
        return entry

    def _secret(self, tree: Tree, field: str, key: str = "") -> Entry:
        """Return a key of a Kubernetes Secret as a file, where the Secret is mounted."""
        name = self._leaves.text(tree, "secretName")
        key = key or self._leaves.text(tree, field)
        safe = all(part and "/" not in part and ".." not in part and "}" not in part
                   for part in (name, key))  # fmt: skip
        leaf = tree.at(field) or tree.at("secretName")
        entry = self._leaves.entry(leaf) if leaf is not None else Entry("", tree.number, field)
        if not safe:
            why = f"it needs secretName and {field}, as plain text"
            self._notes.say(entry, "unsupported", why)
            return Entry("", entry.number, entry.key)
        path = f"{_SECRETS}/{name}"
        self._notes.say(entry, "different", f"the Secret {name} is read from files in {path}")
        return Entry(f"${{dir:{path}:{key}}}", entry.number, entry.key)
