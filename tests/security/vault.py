"""The secrets of the tests, each a canary that may appear nowhere."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.security.authority import Authority, Issued


@dataclasses.dataclass
class Vault:
    """The secrets of the test, in the environment and in files, with references to them."""

    directory: Path
    password: str = dataclasses.field(default_factory=lambda: f"Canary;{secrets.token_hex(12)}=,")
    limited: str = dataclasses.field(default_factory=lambda: f"Canary{secrets.token_hex(12)}")
    client_secret: str = dataclasses.field(default_factory=lambda: f"Canary{secrets.token_hex(12)}")
    authority: Authority = dataclasses.field(default_factory=lambda: Authority("Test CA"))
    stranger: Authority = dataclasses.field(default_factory=lambda: Authority("Unknown CA"))
    client: Issued = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.client = self.authority.issue("copier-by-certificate")
        self.put("ca.pem", self.authority.pem)
        self.put("client.pem", self.client.certificate)
        self.put("client.key", self.client.key)

    def put(self, name: str, text: str) -> str:
        """A file under the allowed root; answers its reference."""
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return f"file:{path}"

    def reference(self, name: str) -> str:
        return f"file:{self.directory / name}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "UNDERSTUDY_SECRET_ROOTS": str(self.directory),
            "KAFKA_TEST_PASSWORD": self.password,
            "KAFKA_TEST_LIMITED": self.limited,
            "KAFKA_TEST_CLIENT_SECRET": self.client_secret,
            "KAFKA_TEST_WRONG": "CanaryWrong" + self.limited,
        }

    @property
    def canaries(self) -> list[str]:
        key_lines = self.client.key.splitlines()[1:-1]
        return [self.password, self.limited, self.client_secret, *key_lines]


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """os.environ with these values, and without them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
