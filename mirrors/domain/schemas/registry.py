"""The schema registry of a cluster: properties of the cluster that begin with `schema.registry.`.

A registry with Confluent's REST API (Confluent, Apicurio under `/apis/ccompat/v7`, Karapace).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

PREFIX: Final = "schema.registry."
URL: Final = f"{PREFIX}url"
# Names as in Confluent's clients, where these have one.
USERNAME: Final = f"{PREFIX}basic.auth.username"
PASSWORD: Final = f"{PREFIX}basic.auth.password"
TOKEN: Final = f"{PREFIX}bearer.auth.token"
CA: Final = f"{PREFIX}ssl.ca"
CERTIFICATE: Final = f"{PREFIX}ssl.certificate"
KEY: Final = f"{PREFIX}ssl.key"
REFERENCES: Final = (PASSWORD, TOKEN, CA, CERTIFICATE, KEY)
# Before the names in an exported file.
EXPORTED: Final = "understudy."
_TLS: Final = (CA, CERTIFICATE, KEY)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistrySpec:
    """How to connect to the registry of the cluster `alias`. Secrets are references.

    `urls`: base addresses of the same registry, tried in order, without a slash at the end.
    """

    alias: str
    urls: tuple[str, ...]
    username: str = ""
    password: str = ""
    token: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def addresses(self) -> tuple[tuple[str, str, int], ...]:
        """URL, host and port of each address."""
        return tuple((url, *host_and_port(url)) for url in self.urls)


def host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def registry_of(alias: str, properties: Mapping[str, str]) -> RegistrySpec | None:
    """Return the registry of a cluster with valid properties; None if it has none."""
    urls = split_urls(properties.get(URL, ""))
    if not urls:
        return None
    username, password, token, ca, certificate, key = (
        properties.get(name, "").strip()
        for name in (USERNAME, PASSWORD, TOKEN, CA, CERTIFICATE, KEY)
    )
    return RegistrySpec(
        alias=alias,
        urls=urls,
        username=username,
        password=password,
        token=token,
        ca=ca,
        certificate=certificate,
        key=key,
    )


def split_urls(text: str) -> tuple[str, ...]:
    return tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())


def registry_problems(properties: Mapping[str, str]) -> list[str]:
    """Return sentences about properties that are valid alone, but not together."""
    named = [name for name in properties if name.startswith(PREFIX)]
    if named and not properties.get(URL):
        return [f"{named[0]} is set, but {URL} is not: enter the address of the registry."]
    found = []
    if bool(properties.get(USERNAME)) != bool(properties.get(PASSWORD)):
        found.append(f"Set both {USERNAME} and {PASSWORD}, or neither.")
    if properties.get(PASSWORD) and properties.get(TOKEN):
        found.append(f"Set {PASSWORD} or {TOKEN}, not both.")
    if bool(properties.get(CERTIFICATE)) != bool(properties.get(KEY)):
        found.append(f"Set both {CERTIFICATE} and {KEY}, or neither.")
    urls = split_urls(properties.get(URL, ""))
    if not any(url.startswith("https://") for url in urls):
        found += [f"{name} is set, but no URL uses https." for name in _TLS if properties.get(name)]
    return found
