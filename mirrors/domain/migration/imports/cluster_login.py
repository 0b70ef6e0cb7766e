"""Converts a cluster's SASL login to typed fields and references; clear text gets advice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from mirrors.domain.java_properties import property_line
from mirrors.domain.migration.imports.drafts import Syntax
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry, is_security
from mirrors.domain.migration.imports.secret_references import (
    ENV_PROVIDER,
    JaasLogin,
    as_reference,
    is_reference,
    is_variable,
    jaas_line,
    read_jaas,
    variable_of,
)
from mirrors.domain.settings.connection import NO_KERBEROS

USED = "Used for the cluster {alias}."
_MSK = "AWS_MSK_IAM"
_MSK_PACKAGE = "software.amazon.msk.auth.iam."
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_MSK_IDLE = ("awsRoleSessionName", "awsStsRegion", "awsDebugCreds", "awsMaxRetries")
_SIGNED = "tokens are signed with the identity of the host where the flows run (understudy[aws])"
_USER = ("username", "password")
_OPTIONS = {"OAUTHBEARER": ("clientId", "clientSecret")}
_JAAS = ("PLAIN", "SCRAM", "OAUTHBEARER")
_EXTENSION = "extension_"


class LoginReader:
    """Collects the fields of one cluster, and reads its login.

    `origins`: the entry of each field. `shared`: keys of no single flow.
    """

    def __init__(
        self,
        alias: str,
        entries: Entries,
        known: Mapping[str, str],
        notes: VerdictCollector,
        syntax: Syntax = "properties",
    ):
        self.origins: dict[str, Entry] = {}
        self.shared: set[str] = set()
        self.has_refused = False
        self._alias = alias
        self._left = {name: entry for name, entry in entries.items() if is_security(name)}
        self._roles = entries
        self._known = known
        self._syntax: Syntax = syntax
        self._notes = notes
        self._fields: dict[str, str] = {}
        self._properties: dict[str, str] = {}

    def _take(self, name: str) -> Entry | None:
        return self._left.pop(name, None)

    def _set(self, field: str, entry: Entry, text: str) -> None:
        self._fields[field] = text
        self.origins[field] = entry
        self._notes.say(entry, "used", USED.format(alias=self._alias))

    def _refuse(self, entry: Entry, reason: str) -> None:
        self.has_refused = True
        self._notes.say(entry, "unsupported", f"{entry.key} {reason}")

    def _refer(self, field: str, entry: Entry) -> None:
        if (reference := self._reference(entry)) is not None:
            self._set(field, entry, reference)

    def _reference(self, entry: Entry) -> str | None:
        """Return the equivalent reference; None if the entry has none, which is then refused."""
        try:
            return as_reference(entry.value, self._known)
        except ValueError as error:
            reason = str(error)
            filled = is_variable(entry.value)
            if filled or "${" not in entry.value:
                variable = variable_of(self._alias, entry.key)
                given = "is a variable of a script" if filled else "is given in clear text"
                reason = f"{given}. {self._advice(entry, variable)}"
            self._refuse(entry, reason)
            return None

    def _advice(self, entry: Entry, variable: str, value: str = "{}") -> str:
        """Return what to do with a secret in clear text: the variable, and the lines to write."""
        text = value.replace("{}", f"${{env:{variable}}}", 1)
        lines = [f"`{self._line(entry, text)}`"]
        if self._known.get("env") != "env":
            named = ",".join([*self._known, "env"])
            lines += [f"`config.providers={named}`", f"`config.providers.env.class={ENV_PROVIDER}`"]
        return (
            f"Set the variable {variable} where the flows run, and write here {' and '.join(lines)}"
        )

    def _line(self, entry: Entry, text: str) -> str:
        if self._syntax == "yaml":
            return f"{entry.key}: {text}"
        if self._syntax == "json":
            return f"{json.dumps(entry.key)}: {json.dumps(text)}"
        return property_line(entry.key, text)

    # --- SASL -------------------------------------------------------------------------------------

    def read_sasl(self) -> None:
        entry = self._take("sasl.mechanism")
        mechanism = entry.value.strip() if entry is not None else "GSSAPI"
        jaas = self._take("sasl.jaas.config")
        if mechanism == "GSSAPI":
            self._refuse_kerberos(entry, jaas)
            return
        assert entry is not None  # noqa: S101 - a missing one is GSSAPI
        if mechanism == _MSK or self._takes_msk_handlers(mechanism):
            self._read_msk(entry, jaas)
            return
        self._set("sasl_mechanism", entry, mechanism)
        if jaas is None:
            self._read_oauth_keys(mechanism)
            return
        if is_reference(jaas.value):
            self._refuse(jaas, self._only_secrets(jaas, mechanism, ""))
            return
        try:
            login = read_jaas(jaas.value)
            if login.kind != mechanism and not mechanism.startswith(f"{login.kind}-"):
                raise ValueError(f"has the login module of {login.kind}, not of {mechanism[:30]}")
        except ValueError as error:
            self._refuse(jaas, str(error))
            return
        self._read_login(jaas, login)

    def _refuse_kerberos(self, entry: Entry | None, jaas: Entry | None) -> None:
        if entry is None:
            why = f"it is missing, and Kafka's default is GSSAPI. {NO_KERBEROS}"
            self.has_refused = True
            self._notes.refuse(f"{self._alias}.sasl.mechanism", why)
        else:
            self.has_refused = True
            self._notes.say(entry, "unsupported", NO_KERBEROS)
        if jaas is not None:
            self._notes.say(jaas, "different", "it belongs to the login with Kerberos")

    def _takes_msk_handlers(self, mechanism: str) -> bool:
        """Return whether Amazon's handlers sign tokens; their lines are then used."""
        names = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
        found = [entry for name in names if (entry := self._left.get(name)) is not None]
        is_msk = any(entry.value.strip().startswith(_MSK_PACKAGE) for entry in found)
        if is_msk and mechanism == "OAUTHBEARER":
            for entry in found:
                self._notes.say(entry, "different", _SIGNED)
            for name in names:
                self._left.pop(name, None)
        return is_msk and mechanism == "OAUTHBEARER"

    def _read_msk(self, entry: Entry, jaas: Entry | None) -> None:
        """Read a login to Amazon MSK with AWS IAM, whose region is that of the addresses."""
        handler = self._take("sasl.client.callback.handler.class")
        if handler is not None:
            self._notes.say(handler, "different", _SIGNED)
        servers = self._fields.get("bootstrap_servers", "")
        region = _MSK_HOST.search(servers)
        if region is None:
            why = (
                "is AWS IAM, but the addresses are not those of MSK, which end with "
                ".kafka.REGION.amazonaws.com, and only they get the host's identity. For another "
                "address use SCRAM"
            )
            self._refuse(entry, why)
            return
        self._set("sasl_mechanism", entry, "OAUTHBEARER")
        self._notes.say(entry, "different", f"imported as OAUTHBEARER: {_SIGNED}")
        self._properties["aws.msk.region"] = region[1]
        if jaas is None:
            return
        try:
            options = dict(read_jaas(jaas.value).options)
        except ValueError as error:
            self._refuse(jaas, str(error))
            return
        if role := options.pop("awsRoleArn", ""):
            self._properties["aws.msk.role.arn"] = role
        for name in _MSK_IDLE:
            options.pop(name, None)
        if "awsProfileName" in options:
            why = "names a profile: set AWS_PROFILE where the flows run, and remove awsProfileName"
            self._refuse(jaas, why)
        elif options:
            names = ", ".join(sorted(options))[:100]
            self._refuse(jaas, f"has options without a field here: {names}")
        else:
            self._notes.say(jaas, "used", USED.format(alias=self._alias))

    def _only_secrets(self, entry: Entry, mechanism: str, secret: str) -> str:
        """Return a sentence for a login that is more than its secret behind a reference."""
        kind = mechanism.partition("-")[0]
        user, word = _OPTIONS.get(kind, _USER)
        shown = secret if is_reference(secret) else "{}"
        line = jaas_line(kind if kind in _JAAS else "PLAIN", {user: "NAME", word: shown})
        variable = variable_of(self._alias, "password")
        first = f"hides more than the secret behind a reference; here the {user} is plain text"
        if secret and is_reference(secret):
            return f"{first}. Write `{self._line(entry, line)}`"
        return f"{first}. {self._advice(entry, variable, line)}"

    def _read_login(self, entry: Entry, login: JaasLogin) -> None:
        user, word = _OPTIONS.get(login.kind, _USER)
        options = dict(login.options)
        name, secret = options.pop(user, None), options.pop(word, None)
        if name is None:
            self._refuse(entry, f"has no {user}")
        elif "${" in name:
            self._refuse(entry, self._only_secrets(entry, login.kind, secret or ""))
            return
        else:
            self._set("sasl_username", entry, name)
        if secret is None:
            self._refuse(entry, f"has no {word}")
        else:
            self._read_secret(entry, login, secret, word)
        if login.kind == "OAUTHBEARER" and "scope" in options:
            self._properties["sasl.oauthbearer.scope"] = options.pop("scope")
        if login.kind == "OAUTHBEARER":
            self._read_extensions(options)
        if options:
            names = ", ".join(sorted(options))[:100]
            self._refuse(entry, f"has options without a field here: {names}")

    def _read_secret(self, entry: Entry, login: JaasLogin, secret: str, word: str) -> None:
        try:
            self._set("sasl_password", entry, as_reference(secret, self._known))
        except ValueError as error:
            if "${" in secret and not is_variable(secret):
                self._refuse(entry, str(error))
                return
            variable = variable_of(self._alias, "password")
            line = jaas_line(login.kind, {**login.options, word: "{}"})
            if "{}" in line.replace('"{}"', "", 1) or not line.isprintable():
                line = jaas_line(login.kind, {word: "{}"})
            advice = self._advice(entry, variable, line)
            given = "as a variable of a script" if is_variable(secret) else "in clear text"
            self._refuse(entry, f"gives the {word} {given}. {advice}")

    def _read_extensions(self, options: dict[str, str]) -> None:
        """Move `extension_NAME` options, which a broker gets with the token, to a property."""
        found = {name: options.pop(name) for name in list(options) if name.startswith(_EXTENSION)}
        if found:
            self._properties["sasl.oauthbearer.extensions"] = ",".join(
                f"{name.removeprefix(_EXTENSION)}={text}" for name, text in found.items()
            )

    def _read_oauth_keys(self, mechanism: str) -> None:
        """Read the OAuth form of Kafka 4.1 and later, which has no JAAS line."""
        user = self._take("sasl.oauthbearer.client.credentials.client.id")
        secret = self._take("sasl.oauthbearer.client.credentials.client.secret")
        if mechanism != "OAUTHBEARER" or user is None or secret is None:
            self.has_refused = True
            why = f"{mechanism[:30]} needs it: the line with the login module, user and password"
            self._notes.refuse(f"{self._alias}.sasl.jaas.config", f"it is missing, and {why}")
            return
        self._set("sasl_username", user, user.value.strip())
        self._refer("sasl_password", secret)
