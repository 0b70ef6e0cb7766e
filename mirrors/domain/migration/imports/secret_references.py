"""Converts references to secrets in MM2 files, and JAAS lines, to references and typed fields.

No reference is resolved here. A secret in clear text is rejected and never shown.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from mirrors.domain.migration.imports.mm2_precedence import Entry, same_value

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}]*)\}")
VARIABLE = re.compile(r"\$\{([A-Za-z_]\w{0,60})\}", re.ASCII)
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.S)
# The last two read Kubernetes' own objects, which are mounted here.
_KINDS = {
    "EnvVarConfigProvider": "env",
    "DirectoryConfigProvider": "dir",
    "FileConfigProvider": "file",
    "KubernetesSecretConfigProvider": "kubernetes",
    "KubernetesConfigMapConfigProvider": "kubernetes",
}
ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": "PLAIN",
    "org.apache.kafka.common.security.scram.ScramLoginModule": "SCRAM",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
    "software.amazon.msk.auth.iam.IAMLoginModule": "AWS_MSK_IAM",
}


def providers(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the provider of each name in `config.providers`: env, dir, file, or its class."""
    named = entries["config.providers"].value if "config.providers" in entries else ""
    found = {}
    for name in (name.strip() for name in named.split(",") if name.strip()):
        entry = entries.get(f"config.providers.{name}.class")
        words = entry.value.strip().rpartition(".")[2] if entry else ""
        found[name] = _KINDS.get(words, words)
    return found


def is_reference(text: str) -> bool:
    """Return whether a whole value is one reference."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def is_variable(text: str) -> bool:
    """Return whether a whole value is `${NAME}`, which a shell or a template fills in.

    A reference of MirrorMaker 2 names a provider before a colon.
    """
    return VARIABLE.fullmatch(text.strip()) is not None


def variable_of(alias: str, name: str) -> str:
    """Return a name for the variable of a cluster's secret that a deployment allows.

    `name`: the key of the secret; two secrets of a cluster have two variables.
    """
    own = re.split(r"(?:^|\.)(?:ssl|sasl)\.", name)[-1].rpartition("]")[2]
    return re.sub(r"[^A-Z0-9]+", "_", f"KAFKA_{alias}_{own}".upper()).strip("_")


def as_reference(text: str, known: Mapping[str, str]) -> str:
    """Return the equivalent reference. Raises ValueError with the reason, never with the text."""
    found = _REFERENCE.fullmatch(text.strip())
    if found is None:
        if is_variable(text):
            raise ValueError(
                "is a variable of a script, which no provider of MirrorMaker 2 resolves; write "
                "${env:KAFKA_NAME} or ${dir:/directory:file}"
            )
        if "${" in text:
            raise ValueError(
                "contains a reference with other text around it; give the whole value as one "
                "reference"
            )
        raise ValueError(
            "is given in clear text; put it into an environment variable or a file, and write "
            "${env:NAME} or ${dir:/directory:file}"
        )
    provider, path, key = found[1], found[2], found[3]
    kind = known.get(provider)
    if kind == "env" and path is None and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
        return f"env:{key}"
    if kind == "dir" and path and path.startswith("/") and key and "/" not in key:
        return f"file:{path.rstrip('/')}/{key}"
    if kind == "file" and path and path.startswith("/") and key and ":" not in path + key:
        return f"properties:{path}:{key}"
    if kind == "kubernetes" and path and key and ".." not in path + key:
        # `namespace/name:key`
        return f"file:/run/secrets/{path.rpartition('/')[2]}/{key}"
    raise ValueError(_no_reference(provider, kind))


def _no_reference(provider: str, kind: str | None) -> str:
    if kind is None:
        return (
            f"refers to a provider {provider!r} that config.providers does not name, so "
            "MirrorMaker 2 would use the text unchanged"
        )
    if kind in {"env", "dir", "file", "kubernetes"}:
        return "is not a reference that its provider can resolve"
    return (
        f"refers to the provider class {kind or 'without a name'}, and no class is loaded here. "
        "Put the value into a variable or a file where the flows run, and write ${env:NAME} or "
        "${dir:/directory:file}"
    )


@dataclasses.dataclass(frozen=True)
class JaasLogin:
    """A parsed JAAS line. `kind` is PLAIN, SCRAM, OAUTHBEARER or AWS_MSK_IAM."""

    kind: str
    options: Mapping[str, str]


def read_jaas(text: str) -> JaasLogin:
    """Return the login of one JAAS line. Raises ValueError. No class is loaded."""
    tokens, at = [], 0
    body = text.strip()
    while at < len(body):
        found = _TOKEN.match(body, at)
        if found is None:
            raise ValueError("is not a JAAS line: a quotation mark is not closed")
        tokens.append(found)
        at = found.end()
    words = [_word(token) for token in tokens]
    marks = [token[4] or "" for token in tokens]
    if len(words) < 3 or marks[-1] != ";" or marks.count(";") != 1:
        raise ValueError("is not a JAAS line: it needs a module, `required`, options and a `;`")
    if (kind := _MODULES.get(words[0])) is None:
        raise ValueError(
            "names a login module that is not Kafka's PlainLoginModule, ScramLoginModule or "
            "OAuthBearerLoginModule, nor Amazon's IAMLoginModule; no class is loaded here"
        )
    if words[1].lower() not in {"required", "requisite", "sufficient", "optional"}:
        raise ValueError("is not a JAAS line: after the module comes `required`")
    return JaasLogin(kind, _options(words[2:-1], marks[2:-1]))


def same_connection(name: str, first: str, second: str) -> bool:
    """Return whether two values of a connection setting mean the same; blanks of JAAS do not."""
    if name == "sasl.jaas.config":
        try:
            return read_jaas(first) == read_jaas(second)
        except ValueError:
            pass
    return same_value(name, first, second)


def _options(words: list[str], marks: list[str]) -> dict[str, str]:
    found = {}
    if len(words) % 3:
        raise ValueError('is not a JAAS line: options are written name="value"')
    for at in range(0, len(words), 3):
        if marks[at] or marks[at + 1] != "=" or marks[at + 2]:
            raise ValueError('is not a JAAS line: options are written name="value"')
        found[words[at]] = words[at + 2]
    return found


def _word(token: re.Match[str]) -> str:
    quoted = token[1] if token[1] is not None else token[2]
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
    return token[3] or token[4]


def jaas_line(kind: str, options: Mapping[str, str]) -> str:
    """Return a JAAS line that `read_jaas`, and Java, parse to the same options."""
    module = next(name for name, word in _MODULES.items() if word == kind)
    words = "".join(f' {name}="{_quoted(text)}"' for name, text in options.items())
    return f"{module} required{words};"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
