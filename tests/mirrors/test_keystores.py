"""Java key stores become PEM files that only their owner can read."""

from __future__ import annotations

import shutil
import ssl
import stat
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.core.management import CommandError, call_command

from mirrors.kafka.security.connection_settings import tls_context
from mirrors.kafka.security.keystores import certificates_of
from mirrors.kafka.security.secret_scopes import Purpose
from mirrors.kafka.security.secrets import SecretUnavailable, check_reference
from tests.domain.cases import cluster

PASSWORD = "changeit"
KEYTOOL = shutil.which("keytool")
needs_keytool = pytest.mark.skipif(KEYTOOL is None, reason="Java's keytool makes these stores.")


def keytool(*arguments: str) -> None:
    assert KEYTOOL is not None
    done = subprocess.run([KEYTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client's key as JKS and PKCS12, and its certificate as a truststore."""
    where = tmp_path_factory.mktemp("stores")
    pass_ = ("-storepass", PASSWORD)
    keytool(
        "-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", "-keypass", PASSWORD,
        "-keystore", str(where / "key.jks"), "-storetype", "JKS", *pass_,
    )  # fmt: skip
    keytool(
        "-exportcert", "-alias", "me", "-rfc", "-file", str(where / "me.pem"),
        "-keystore", str(where / "key.jks"), *pass_,
    )  # fmt: skip
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(where / "me.pem"),
        "-keystore", str(where / "trust.p12"), "-storetype", "PKCS12", *pass_,
    )  # fmt: skip
    return where


def convert(store: Path, out: Path, monkeypatch: pytest.MonkeyPatch, word: str = PASSWORD) -> str:
    monkeypatch.setenv("KAFKA_STORE", word)
    said = StringIO()
    call_command(
        "convert_keystore", str(store), "--password", "env:KAFKA_STORE", "--out", str(out),
        stdout=said,
    )  # fmt: skip
    return said.getvalue()


@needs_keytool
def test_a_java_store_becomes_a_certificate_and_a_key(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = convert(stores / "key.jks", tmp_path, monkeypatch)
    for name, field in (("key.crt.pem", "ssl_certificate"), ("key.key.pem", "ssl_key")):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert f"{field} = file:{tmp_path / name}" in said
    assert (tmp_path / "key.crt.pem").read_text() == (stores / "me.pem").read_text().replace(
        "\r\n", "\n"
    )
    assert load_pem_private_key((tmp_path / "key.key.pem").read_bytes(), None)
    assert "UNDERSTUDY_SECRET_ROOTS" in said
    with pytest.raises(CommandError, match="File exists"):
        convert(stores / "key.jks", tmp_path, monkeypatch)


@needs_keytool
def test_a_truststore_becomes_a_ca_file(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = convert(stores / "trust.p12", tmp_path, monkeypatch)
    assert f"ssl_ca = file:{tmp_path / 'trust.ca.pem'}" in said
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=tmp_path / "trust.ca.pem")


@needs_keytool
@pytest.mark.parametrize("name", ["key.jks", "trust.p12", "me.pem", "absent"])
def test_a_store_that_does_not_open_writes_nothing_and_says_so(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(CommandError, match=name) as refused:
        convert(stores / name, tmp_path / "out", monkeypatch, "wrong-password")
    assert "wrong-password" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@needs_keytool
def test_a_cluster_reads_its_stores_where_they_are(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(stores / "me.pem"),
        "-keystore", str(stores / "trust.jks"), "-storetype", "JKS", "-storepass", PASSWORD,
    )  # fmt: skip
    monkeypatch.setenv("UNDERSTUDY_SECRET_ROOTS", str(stores))
    monkeypatch.setenv("KAFKA_STORE", PASSWORD)
    key = f"store:{stores}/key.jks:env:KAFKA_STORE"
    for ca in (
        f"store:{stores}/trust.jks",
        f"store:{stores}/trust.jks:env:KAFKA_STORE",
        f"store:{stores}/trust.p12:env:KAFKA_STORE",
    ):
        spec = cluster("a", security_protocol="SSL", properties={}, ssl_ca=ca,
                       ssl_certificate=key, ssl_key=key)  # fmt: skip
        assert spec.validate() == {}
        context = tls_context(spec)
        assert context is not None
        assert context.cert_store_stats()["x509"] == 1
    assert check_reference(key) is None
    assert "must be under" in str(check_reference("store:/etc/key.jks:env:KAFKA_STORE"))
    assert "must match" in str(check_reference(f"store:{stores}/key.jks:env:PATH"))
    assert check_reference(key, purpose=Purpose.NOTIFY) is not None


@needs_keytool
def test_a_wrong_password_of_a_store_is_said_without_it(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_SECRET_ROOTS", str(stores))
    monkeypatch.setenv("KAFKA_STORE", "wrong-password")
    for name in ("key.jks", "trust.p12"):
        with pytest.raises(SecretUnavailable, match="the password is wrong") as refused:
            certificates_of(f"store:{stores}/{name}:env:KAFKA_STORE")
        assert "wrong-password" not in str(refused.value)
    with pytest.raises(SecretUnavailable, match="needs its password"):
        certificates_of(f"store:{stores}/key.jks")
