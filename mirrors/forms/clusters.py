"""The form of a cluster's connection: all security settings; secrets as references only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django import forms

from mirrors.domain.schemas import registry
from mirrors.forms.base import SettingsForm, lines_of, parse_lines, text_field
from mirrors.models import Cluster
from mirrors.models.clusters import SaslMechanism, SecurityProtocol

OAUTH_KEYS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope")
# Property of the cluster -> field of the form.
REGISTRY_FIELDS = {
    registry.URL: "registry_urls",
    registry.USERNAME: "registry_username",
    registry.PASSWORD: "registry_password",
    registry.TOKEN: "registry_token",
    registry.CA: "registry_ca",
    registry.CERTIFICATE: "registry_certificate",
    registry.KEY: "registry_key",
}
HINTS = {
    "alias": "Short name; part of remote topic names and metrics. It cannot change later.",
    "sasl_username": "The client id for OAUTHBEARER.",
    "sasl_password": "A reference for the worker: env:NAME or file:/path. Never the secret itself.",
    "ssl_ca": "The CA of the brokers' certificates. Empty: the system's list.",
    "ssl_certificate": "Only if the brokers require a client certificate.",
    "ssl_key": "A reference, like the password.",
    "registry_urls": "Of a registry with Confluent's REST API. Empty: the cluster has none.",
    "registry_password": "A reference, like the password of the cluster.",
    "registry_token": "A reference. Instead of user and password.",
    "registry_ca": "The CA of the registry's certificate. Empty: the system's list.",
    "registry_certificate": "Only if the registry requires a client certificate.",
    "registry_key": "A reference, like the password.",
    "properties": "One key=value per line, from the list of allowed client settings.",
}


# Whether a security protocol needs the fields. `app.css` hides the same ones.
_FIELDS_OF_PROTOCOL: tuple[tuple[Callable[[str], bool], tuple[str, ...]], ...] = (
    (
        lambda protocol: protocol.startswith("SASL"),
        ("sasl_mechanism", "sasl_username", "sasl_password"),
    ),
    (lambda protocol: protocol.endswith("SSL"), ("ssl_ca", "ssl_certificate", "ssl_key")),
)


class ClusterForm(SettingsForm):
    alias = text_field("Alias", required=True, max_length=100)
    bootstrap_servers = text_field(
        "Bootstrap servers", required=True, max_length=5000, placeholder="host:9092, host:9092"
    )
    security_protocol = forms.ChoiceField(
        label="Security protocol",
        choices=[(name, name) for name in SecurityProtocol.values],
        initial="PLAINTEXT",
    )
    sasl_mechanism = forms.ChoiceField(
        label="SASL mechanism",
        choices=[("", "Choose"), *((name, name) for name in SaslMechanism.values)],
        required=False,
    )
    sasl_username = text_field("Username", max_length=255)
    sasl_password = text_field("Password reference", placeholder="env:KAFKA_PASSWORD")
    oauth_endpoint = text_field("Token endpoint", placeholder="https://login.example.org/token")
    oauth_scope = text_field("Scope")
    ssl_ca = text_field("CA certificates", placeholder="file:/run/secrets/ca.pem")
    ssl_certificate = text_field("Client certificate", placeholder="file:/run/secrets/client.pem")
    ssl_key = text_field("Client key", placeholder="file:/run/secrets/client.key")
    registry_urls = text_field(
        "Addresses", max_length=2000, placeholder="https://registry.example.org:8081"
    )
    registry_username = text_field("Registry username", max_length=255)
    registry_password = text_field("Registry password reference", placeholder="env:KAFKA_REGISTRY")
    registry_token = text_field("Bearer token reference", placeholder="env:KAFKA_REGISTRY_TOKEN")
    registry_ca = text_field("Registry CA", placeholder="file:/run/secrets/registry-ca.pem")
    registry_certificate = text_field(
        "Registry client certificate", placeholder="file:/run/secrets/client.pem"
    )
    registry_key = text_field("Registry client key", placeholder="file:/run/secrets/client.key")
    properties = text_field(
        "Further client properties", area=4, placeholder="reconnect.backoff.ms=100"
    )

    oauth_fields: ClassVar = dict(zip(OAUTH_KEYS, ("oauth_endpoint", "oauth_scope"), strict=True))
    property_fields: ClassVar = oauth_fields | REGISTRY_FIELDS

    def __init__(self, *args: Any, cluster: Cluster | None = None, **kwargs: Any) -> None:
        super().__init__(*args, initial=_cluster_initial(cluster), **kwargs)
        for name, hint in HINTS.items():
            self.fields[name].help_text = hint
        if cluster is not None:
            self.fields["alias"].disabled = True

    def clean_properties(self) -> dict[str, str]:
        return parse_lines(self.cleaned_data["properties"])

    def clean(self) -> dict[str, Any]:
        facts = super().clean() or self.cleaned_data
        self._clear_hidden(facts)
        properties = facts.get("properties")
        if isinstance(properties, dict):
            for key, name in self.property_fields.items():
                if facts.get(name):
                    properties[key] = facts[name]
        return facts

    def _clear_hidden(self, facts: dict[str, Any]) -> None:
        """Empty the fields that the page hides: nobody could see or correct their values."""
        protocol, mechanism = facts.get("security_protocol"), facts.get("sasl_mechanism")
        for uses, names in _FIELDS_OF_PROTOCOL:
            if protocol and not uses(protocol):
                facts.update(dict.fromkeys(names, ""))
                for name in names:
                    self.errors.pop(name, None)
        if mechanism != "OAUTHBEARER" or not facts["sasl_mechanism"]:
            facts.update(dict.fromkeys(self.oauth_fields.values(), ""))

    def values(self) -> dict[str, Any]:
        """The columns of a cluster, without the form's helper fields."""
        return {
            name: value
            for name, value in self.cleaned_data.items()
            if name not in self.property_fields.values()
        }

    def complain(self, key: str, sentences: Iterable[str]) -> None:
        name = key.removeprefix("properties.")
        super().complain(self.property_fields.get(name, key), sentences)


def _cluster_initial(cluster: Cluster | None) -> dict[str, Any]:
    if cluster is None:
        return {}
    rest = dict(cluster.properties)
    named = {name: rest.pop(key, "") for key, name in ClusterForm.property_fields.items()}
    columns = [name for name in ClusterForm.base_fields if hasattr(cluster, name)]
    facts = {name: getattr(cluster, name) for name in columns}
    return {**facts, **named, "properties": lines_of(rest)}
