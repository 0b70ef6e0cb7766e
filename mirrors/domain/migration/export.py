"""Export of flows as an equivalent `mm2.properties` file for MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrors.domain.java_properties import property_line
from mirrors.domain.migration.imports.flows import UNSET
from mirrors.domain.migration.imports.secret_references import jaas_line
from mirrors.domain.migration.imports.transforms import EXPORTED
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.schemas import registry
from mirrors.domain.settings import client_properties
from mirrors.domain.settings.connection import MSK_REGION, MSK_ROLE
from mirrors.domain.settings.table import DEFAULT_POLICY, IDENTITY_POLICY, KEYS, POLICY_CLASSES
from mirrors.domain.settings.unsupported_mm2 import REFUSED
from mirrors.domain.settings.validation import tuning
from mirrors.domain.settings.value_types import Extensions, Setting
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.transforms.rules import TRANSFORMS

_PROVIDER = "org.apache.kafka.common.config.provider"
_PROVIDERS = {
    "env": f"{_PROVIDER}.EnvVarConfigProvider",
    "dir": f"{_PROVIDER}.DirectoryConfigProvider",
    "file": f"{_PROVIDER}.FileConfigProvider",
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_ENDPOINT = "ssl.endpoint.identification.algorithm"
_TOKENS = "sasl.oauthbearer.token.endpoint.url"
_SCOPE = "sasl.oauthbearer.scope"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_HEAD = """\
# Written by Understudy: these flows as MirrorMaker 2 in dedicated mode understands them.
# Secrets stay references: the providers below resolve them where MirrorMaker 2 runs.
"""


def write_mm2(flows: Sequence[FlowSpec]) -> str:
    """Return the whole file. A flow's settings have its name, so they affect no other flow."""
    clusters = {side.alias: side for spec in flows for side in (spec.source, spec.target)}
    lines = [_HEAD, property_line("clusters", ",".join(clusters))]
    body = [line for spec in clusters.values() for line in ["", *_cluster(spec)]]
    used = [name for name in _PROVIDERS if any(f"${{{name}:" in line for line in body)]
    if used:
        lines.append(property_line("config.providers", ",".join(used)))
        lines += [property_line(f"config.providers.{n}.class", _PROVIDERS[n]) for n in used]
    lines += body
    lines += _exactly_once(flows)
    lines += [line for spec in flows for line in ["", *_flow(spec)]]
    return "\n".join(lines) + "\n"


def _cluster(spec: ClusterSpec) -> Iterator[str]:
    def said(name: str, text: str) -> str:
        return property_line(f"{spec.alias}.{name}", text)

    yield said("bootstrap.servers", spec.bootstrap_servers)
    yield said("security.protocol", spec.security_protocol)
    if spec.security_protocol.startswith("SASL_"):
        yield from (said(name, text) for name, text in _login(spec))
    yield from (said(name, text) for name, text in _tls(spec))
    for name, text in spec.properties.items():
        if name == _ENDPOINT:
            yield said(name, "" if text.strip() == "none" else text.strip())
        elif name in client_properties.COMMON:
            yield from (said(f"{role}.{name}", text) for role in ("consumer", "producer", "admin"))
        elif name.startswith(registry.PREFIX):
            # MirrorMaker 2 ignores it; an import reads it.
            value = _reference(text) if name in registry.REFERENCES else text
            yield said(registry.EXPORTED + name, value)


def _tls(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    if spec.ssl_ca.startswith("store:"):
        yield from _store("truststore", spec.ssl_ca)
    elif spec.ssl_ca:
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", _reference(spec.ssl_ca)
    if spec.ssl_certificate.startswith("store:"):
        yield from _store("keystore", spec.ssl_certificate)
    elif spec.ssl_certificate:
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", _reference(spec.ssl_certificate)
        yield "ssl.keystore.key", _reference(spec.ssl_key)


def _store(side: str, ours: str) -> Iterator[tuple[str, str]]:
    """Yield a key store of Java. Its type stays Java's default, which reads JKS and PKCS12."""
    path, _, password = ours.removeprefix("store:").partition(":")
    yield f"ssl.{side}.location", path
    if password:
        yield f"ssl.{side}.password", _reference(password)
        if side == "keystore":
            yield "ssl.key.password", _reference(password)


def _login(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    if MSK_REGION in spec.properties:
        yield from _msk_login(spec)
        return
    yield "sasl.mechanism", spec.sasl_mechanism
    secret = _reference(spec.sasl_password)
    if spec.sasl_mechanism != "OAUTHBEARER":
        kind = spec.sasl_mechanism.partition("-")[0]
        options = {"username": spec.sasl_username, "password": secret}
        yield "sasl.jaas.config", jaas_line(kind, options)
        return
    options = {"clientId": spec.sasl_username, "clientSecret": secret}
    if scope := spec.properties.get(_SCOPE):
        options["scope"] = scope
    if extensions := spec.properties.get(_EXTENSIONS):
        pairs = Extensions().parse(extensions)
        options |= {f"extension_{name}": text for name, text in pairs.items()}
    yield "sasl.jaas.config", jaas_line("OAUTHBEARER", options)
    yield "sasl.login.callback.handler.class", _OAUTH
    yield _TOKENS, spec.properties[_TOKENS]


def _msk_login(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    role = spec.properties.get(MSK_ROLE)
    yield "sasl.mechanism", "AWS_MSK_IAM"
    yield "sasl.jaas.config", jaas_line("AWS_MSK_IAM", {"awsRoleArn": role} if role else {})
    yield "sasl.client.callback.handler.class", _MSK_HANDLER


def _reference(ours: str) -> str:
    kind, _, rest = ours.partition(":")
    if kind == "env":
        return f"${{env:{rest}}}"
    if kind == "properties":
        return f"${{file:{rest}}}"
    directory, _, name = rest.rpartition("/")
    return f"${{dir:{directory or '/'}:{name}}}"


def _exactly_once(flows: Sequence[FlowSpec]) -> Iterator[str]:
    """Yield MM2's setting: it belongs to the target's workers and needs read_committed."""
    for alias in dict.fromkeys(spec.target.alias for spec in flows):
        into = [spec for spec in flows if spec.target.alias == alias]
        wanted = [spec for spec in into if spec.settings.delivery == "exactly_once"]
        fit = all(spec.settings.isolation_level == "read_committed" for spec in wanted)
        if wanted and len(wanted) == len(into) and fit:
            yield ""
            yield property_line(f"{alias}.exactly.once.source.support", "enabled")
            yield "# Needs `dedicated.mode.enable.internal.rest = true`, and a port to listen on."
        elif wanted:
            yield f"\n# MirrorMaker 2 cannot provide exactly once for all flows to {alias}."


def _flow(spec: FlowSpec) -> Iterator[str]:
    yield property_line(f"{spec.name}.enabled", "true")
    fixed = {name: text for name, text in spec.properties.items() if name in REFUSED}
    theirs = {key.name: _text(spec, key) for key in KEYS.values() if key.verdict != "ours"}
    ours = {key.name: _text(spec, key) for key in KEYS.values() if key.verdict == "ours"}
    for name, text in (fixed | theirs).items():
        if text is not None and (name in fixed or _needed(name, spec)):
            yield property_line(f"{spec.name}.{name}", text)
    yield from _clients(spec)
    yield "# Understudy's own settings: MirrorMaker 2 has no such settings and ignores them."
    for name, text in ours.items():
        if text is not None and name != TRANSFORMS:
            yield property_line(f"{spec.name}.{name}", text)
    if spec.settings.topic_rename:
        yield f"# MirrorMaker 2 does not apply {RENAME}: its policy names all of {spec.name}."
    if unset := [key.name for key in KEYS.values() if key.mm2 and _text(spec, key) is None]:
        yield "# Not set: Understudy's own default applies, also when this file is imported."
        yield property_line(f"{spec.name}.{UNSET}", ",".join(unset))
    if spec.settings.transforms:
        yield f"# MirrorMaker 2 does not apply these rules: it copies all records of {spec.name}."
        yield property_line(f"{spec.name}.{EXPORTED}", spec.properties[TRANSFORMS])


def _text(spec: FlowSpec, key: Setting) -> str | None:
    if key.name == "start.from":
        # An older way to say it may be among the consumer's properties.
        return spec.settings.start_from
    text = spec.properties.get(key.name, key.default)
    if text is None:
        return None
    if key.name == "replication.policy.class":
        known = POLICY_CLASSES[text.strip()] == "default"
        return DEFAULT_POLICY if known else IDENTITY_POLICY
    return text.strip()


def _needed(name: str, spec: FlowSpec) -> bool:
    """Return whether a person set it, or the default differs from MM2's."""
    return name in spec.properties or KEYS[name].default != KEYS[name].mm2


def _clients(spec: FlowSpec) -> Iterator[str]:
    consumer = {"isolation.level": spec.settings.isolation_level}
    consumer |= tuning(spec.properties, "consumer")
    if spec.settings.start_from in {"earliest", "latest"}:
        consumer["auto.offset.reset"] = spec.settings.start_from
    for name, text in consumer.items():
        yield property_line(f"{spec.name}.source.consumer.{name}", text)
    for name, text in tuning(spec.properties, "producer").items():
        yield property_line(f"{spec.name}.producer.override.{name}", text)
