"""A real Keycloak with one realm: fetched once from Maven, verified, started on a free port.

UNDERSTUDY_TEST_KEYCLOAK=http://127.0.0.1:PORT uses one that runs already, with the account below.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import time
import urllib.parse
import uuid
import zipfile
from pathlib import Path
from typing import Any

import requests

from controlplane.demo.processes.ports import free_port
from tests.maven import fetched

VERSION = "26.5.6"
ARTIFACT = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
SHA256 = "490189d9dff05272432d51f71a069462eeca97f2920a694d539a1e6c26a5a347"
ADMIN, ADMIN_PASSWORD = "admin", "admin-password"
CLIENT, SECRET = "understudy", "client-secret-of-tests"
START_S = 400.0


class Keycloak:
    """The server and its administration."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.realm = f"understudy-{uuid.uuid4().hex[:8]}"
        self.issuer = f"{root}/realms/{self.realm}"
        self._token = ("", 0.0)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = requests.request(
            method,
            f"{self.root}/admin/realms{path}",
            json=body,
            headers={"Authorization": f"Bearer {self._admin_token()}"},
            timeout=30,
        )
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def make_realm(self, *, groups: list[str]) -> None:
        mapper = {
            "name": "groups",
            "protocol": "openid-connect",
            "protocolMapper": "oidc-group-membership-mapper",
            "config": {
                "claim.name": "groups",
                "full.path": "false",
                "userinfo.token.claim": "true",
                "id.token.claim": "true",
                "access.token.claim": "true",
            },
        }
        client = {
            "clientId": CLIENT,
            "secret": SECRET,
            "redirectUris": ["http://testserver/*"],
            "attributes": {
                "pkce.code.challenge.method": "S256",
                "post.logout.redirect.uris": "http://testserver/*",
            },
            "protocolMappers": [mapper],
        }
        realm = {"realm": self.realm, "enabled": True, "sslRequired": "none"}
        named = [{"name": name} for name in groups]
        self.call("POST", "", {**realm, "groups": named, "clients": [client]})

    def make_user(self, name: str, password: str, groups: list[str]) -> str:
        self.call(
            "POST",
            f"/{self.realm}/users",
            {
                "username": name,
                "email": f"{name}@example.com",
                "emailVerified": True,
                "firstName": name,
                "lastName": "Test",
                "enabled": True,
                "groups": [f"/{group}" for group in groups],
                "credentials": [{"type": "password", "value": password, "temporary": False}],
            },
        )
        [found] = self.call("GET", f"/{self.realm}/users?username={name}&exact=true")
        return str(found["id"])

    def change(self, user: str, **facts: Any) -> None:
        self.call("PUT", f"/{self.realm}/users/{user}", facts)

    def set_group(self, user: str, group: str, *, member: bool) -> None:
        every = self.call("GET", f"/{self.realm}/groups")
        found = next(one["id"] for one in every if one["name"] == group)
        self.call("PUT" if member else "DELETE", f"/{self.realm}/users/{user}/groups/{found}")

    def answer_of_browser(self, address: str, name: str, password: str) -> str:
        """Sign in on the provider's page; the address to which it sends the browser back."""
        browser = requests.Session()
        page = browser.get(address, timeout=30)
        for cookie in browser.cookies:
            # A browser sends them to this machine without TLS too.
            cookie.secure = False
        action = re.search(r'action="([^"]+/login-actions/authenticate[^"]+)"', page.text)
        assert action is not None, page.text[:2000]
        answer = browser.post(
            html.unescape(action[1]),
            data={"username": name, "password": password},
            allow_redirects=False,
            timeout=30,
        )
        back = answer.headers.get("Location", "")
        assert back, answer.text[:2000]
        parts = urllib.parse.urlsplit(back)
        return f"{parts.path}?{parts.query}"

    def _admin_token(self) -> str:
        token, until = self._token
        if time.monotonic() < until:
            return token
        answer = requests.post(
            f"{self.root}/realms/master/protocol/openid-connect/token",
            data={
                "grant_type": "password",
                "client_id": "admin-cli",
                "username": ADMIN,
                "password": ADMIN_PASSWORD,
            },
            timeout=30,
        )
        answer.raise_for_status()
        self._token = (str(answer.json()["access_token"]), time.monotonic() + 30)
        return self._token[0]


class Server:
    """The process."""

    def __init__(self, directory: Path, guard: dict[str, str]) -> None:
        port = free_port()
        self.root = f"http://127.0.0.1:{port}"
        with zipfile.ZipFile(_distribution()) as archive:
            archive.extractall(directory)
        self._log = directory / "keycloak.log"
        command = ["bash", "bin/kc.sh", "start-dev", "--http-host", "127.0.0.1"]
        command += ["--http-port", str(port), "--cache", "local"]
        environment = {
            **os.environ,
            **guard,
            "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN,
            "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN_PASSWORD,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=directory / f"keycloak-{VERSION}",
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < until, self._log.read_text()[-3000:]
            try:
                if requests.get(f"{self.root}/realms/master", timeout=5).ok:
                    return
            except requests.RequestException:
                time.sleep(0.5)

    def close(self) -> None:
        os.killpg(self._process.pid, 9)
        self._process.wait(30)


def _distribution() -> Path:
    return fetched(ARTIFACT, name=f"keycloak-{VERSION}", sha256=SHA256)
