"""A certificate for the brokers of the TLS cells: signed by itself, for the loopback address."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.demo.ports import HOST

_DAY = datetime.timedelta(days=1)


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """(the brokers' key store, what clients trust), both PEM, good for a week."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy-bench")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 7 * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    trusted = directory / "ca.pem"
    trusted.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    store = directory / "broker.pem"
    store.touch(mode=0o600)
    store.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + trusted.read_bytes()
    )
    return store, trusted
