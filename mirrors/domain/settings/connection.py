"""Validation of a cluster's connection settings. Whether they work is not checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirrors.domain.schemas.registry import registry_problems
from mirrors.domain.settings import client_properties
from mirrors.domain.settings.references import reference_problems, store_problems

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LONGEST_ALIAS = 100
LONGEST_BOOTSTRAP = 2000
_ALIAS = re.compile(r"[A-Za-z0-9._-]+")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?")
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]")
_SASL_FIELDS = ("sasl_mechanism", "sasl_username", "sasl_password")
_SSL_FIELDS = ("ssl_ca", "ssl_certificate", "ssl_key")
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
MSK_REGION = "aws.msk.region"
MSK_ROLE = "aws.msk.role.arn"
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")
# Instead of Kerberos, which neither client here has.
NO_KERBEROS = (
    "Kerberos (GSSAPI) is not supported: the clients here have no Kerberos library. Add a listener "
    "or a user with SCRAM-SHA-512, or client certificates (SSL), for replication, and log in with "
    "that"
)

Problems = dict[str, list[str]]


def check_connection(
    alias: str, bootstrap_servers: str, fields: Mapping[str, str], properties: Mapping[str, str]
) -> Problems:
    """Return sentences by field, empty if valid. `fields` are ClusterSpec's security fields."""
    found = {
        "alias": alias_problems(alias),
        "bootstrap_servers": bootstrap_problems(bootstrap_servers),
        "properties": _property_problems(fields, properties),
    }
    msk = MSK_REGION in properties
    found |= _security_problems(fields, msk=msk)
    if msk or MSK_ROLE in properties:
        found["properties"] += _msk_problems(bootstrap_servers, fields, properties)
    else:
        found["properties"] += _oauth_problems(fields, properties)
    for name in ("sasl_password", *_SSL_FIELDS):
        if text := fields.get(name, ""):
            is_tls = name in _SSL_FIELDS
            problems = store_problems(text) if is_tls else reference_problems(text)
            found.setdefault(name, []).extend(problems)
    return {name: sentences for name, sentences in found.items() if sentences}


def alias_problems(alias: str) -> list[str]:
    """Check an alias. Topic names begin with it, so the same characters are allowed."""
    if not alias:
        return ["An alias is required: the short name with which names of remote topics begin."]
    if len(alias) > LONGEST_ALIAS:
        return [f"The alias has {len(alias)} characters; the limit is {LONGEST_ALIAS}."]
    if not _ALIAS.fullmatch(alias):
        return ["An alias may contain only the characters a-z, A-Z, 0-9, dot, underscore and dash."]
    if alias.startswith((".", "__")):
        return [
            "An alias may not begin with a dot or two underscores: its topics would be internal."
        ]
    return []


def alias_warnings(alias: str, separator: str = ".") -> list[str]:
    """Return warnings about an allowed alias."""
    if separator in alias:
        return [
            f"The alias {alias} contains the separator {separator!r}: MirrorMaker 2 and its "
            "clients could not determine the origin of its remote topics."
        ]
    return []


def bootstrap_problems(servers: str) -> list[str]:
    """Check `host:port` pairs separated by commas; IPv6 addresses are in square brackets."""
    if not servers.strip():
        return ["List at least one broker as host:port."]
    if len(servers) > LONGEST_BOOTSTRAP:
        return [f"The list is longer than {LONGEST_BOOTSTRAP} characters."]
    problems = (_address_problem(server.strip()) for server in servers.split(","))
    return [problem for problem in problems if problem is not None]


def _address_problem(server: str) -> str | None:
    if not server:
        return "The list has an empty element: two commas in a row, or one at an end."
    if "://" in server:
        return f"{server!r} is a URL; write host:port alone and choose the security protocol."
    host, colon, port = server.rpartition(":")
    if any(mark in server for mark in "<>{}$"):
        return f"{server[:60]!r} is a placeholder: write the address of a broker as host:port."
    if not colon or (server.startswith("[") and server.endswith("]")):
        return f"{server!r} has no port; write host:port, for example {server}:9092."
    if not (_HOST.fullmatch(host) or _IPV6.fullmatch(host)):
        hint = " (an IPv6 address goes in square brackets)" if ":" in host else ""
        return f"{server!r} does not begin with a host name or address{hint}."
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        return f"{server!r} does not end with a port from 1 to 65535."
    return None


def _security_problems(fields: Mapping[str, str], *, msk: bool) -> Problems:
    protocol = fields["security_protocol"]
    if protocol not in PROTOCOLS:
        return {"security_protocol": [f"It must be one of {', '.join(PROTOCOLS)}."]}
    found: Problems = {}
    if protocol.startswith("SASL_"):
        found |= _sasl_problems(fields, msk=msk)
    else:
        found |= _unused(fields, _SASL_FIELDS, protocol)
    if protocol.endswith("SSL"):
        found |= _tls_problems(fields)
    else:
        found |= _unused(fields, _SSL_FIELDS, protocol)
    return found


def _unused(fields: Mapping[str, str], names: tuple[str, ...], protocol: str) -> Problems:
    sentence = f"It is set, but {protocol} does not use it: empty it, or choose another protocol."
    return {name: [sentence] for name in names if fields.get(name)}


def _sasl_problems(fields: Mapping[str, str], *, msk: bool) -> Problems:
    mechanism = fields.get("sasl_mechanism", "")
    if mechanism == "GSSAPI":
        return {"sasl_mechanism": [f"{NO_KERBEROS}."]}
    if mechanism not in MECHANISMS:
        allowed = ", ".join(MECHANISMS)
        return {"sasl_mechanism": [f"{fields['security_protocol']} needs one of {allowed}."]}
    meaning = {"sasl_username": "the user name", "sasl_password": "a reference to the password"}
    if mechanism == "OAUTHBEARER" and msk:
        return _unused(fields, ("sasl_username", "sasl_password"), f"{MSK_REGION}, with AWS IAM,")
    if mechanism == "OAUTHBEARER":
        meaning = {"sasl_username": "the client id", "sasl_password": "a reference to its secret"}
    found = {
        name: [f"{mechanism} needs {words} here."]
        for name, words in meaning.items()
        if not fields.get(name)
    }
    username = fields.get("sasl_username", "")
    if username and not (username.isprintable() and len(username) <= 255):
        found["sasl_username"] = ["A user name is printable text of at most 255 characters."]
    return found


def _tls_problems(fields: Mapping[str, str]) -> Problems:
    certificate, key = fields.get("ssl_certificate", ""), fields.get("ssl_key", "")
    if certificate != key and "store:" in (certificate[:6], key[:6]):
        return {"ssl_key": ["A key store holds the certificate and its key: give both the same."]}
    if bool(certificate) == bool(key):
        return {}
    missing = "ssl_key" if fields.get("ssl_certificate") else "ssl_certificate"
    return {missing: ["Set both a client certificate and its key, or neither."]}


def _property_problems(fields: Mapping[str, str], properties: Mapping[str, str]) -> list[str]:
    found = []
    for name, text in properties.items():
        if not isinstance(text, str):
            found.append(f"{name} must be text.")
        elif (sentence := client_properties.refusal("cluster", name, text)) is not None:
            found.append(sentence)
        elif name.startswith("ssl.") and not fields["security_protocol"].endswith("SSL"):
            found.append(f"{name} is set, but {fields['security_protocol']} does not use it.")
    if not found:
        clashes = client_properties.contradictions(properties)
        found += [f"{name} {words}." for name, words in clashes.items()]
        found += registry_problems(properties)
    return found


def _oauth_problems(fields: Mapping[str, str], properties: Mapping[str, str]) -> list[str]:
    asked = (
        fields["security_protocol"].startswith("SASL_")
        and fields.get("sasl_mechanism") == "OAUTHBEARER"
    )
    if asked and not properties.get(_ENDPOINT):
        return [f"OAUTHBEARER needs {_ENDPOINT}: the URL that issues tokens."]
    names = [name for name in properties if name.startswith("sasl.oauthbearer.")]
    return [] if asked else [f"{name} is set, but only OAUTHBEARER uses it." for name in names]


def _msk_problems(
    servers: str, fields: Mapping[str, str], properties: Mapping[str, str]
) -> list[str]:
    """Check a login to Amazon MSK by AWS IAM.

    Only MSK's own addresses get the token: it comes from the identity of the host, which nobody
    who edits a cluster may send elsewhere.
    """
    region, role = properties.get(MSK_REGION, ""), properties.get(MSK_ROLE)
    if (fields["security_protocol"], fields.get("sasl_mechanism")) != ("SASL_SSL", "OAUTHBEARER"):
        return [f"{MSK_REGION} needs SASL_SSL and OAUTHBEARER, with which MSK accepts AWS IAM."]
    if not _REGION.fullmatch(region):
        return [f"{MSK_REGION} must be a region such as eu-west-1."]
    found = []
    if role is not None and not _ROLE.fullmatch(role):
        found.append(f"{MSK_ROLE} must be a role such as arn:aws:iam::123456789012:role/NAME.")
    others = [name for name in properties if name.startswith("sasl.oauthbearer.")]
    found += [f"{name} is set, but AWS IAM does not use it." for name in others]
    host = re.compile(rf".+\.kafka(-serverless)?\.{region}\.amazonaws\.com(\.cn)?:\d+")
    for server in (part.strip() for part in servers.split(",")):
        if not host.fullmatch(server):
            found.append(
                f"With {MSK_REGION}, every address must be one of MSK in {region}, which ends with "
                f".kafka.{region}.amazonaws.com; {server[:100]} is not. For another address use "
                "SCRAM."
            )
    return found
