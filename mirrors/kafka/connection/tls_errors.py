"""Failed TLS handshakes, explained: OpenSSL's verification codes and alerts as sentences."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.security.connection_settings import tls_context

# X509_V_ERR_* of OpenSSL.
NOT_YET_VALID, EXPIRED, HOST_MISMATCH, ADDRESS_MISMATCH = 9, 10, 62, 64
UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21, 24)
# X509_V_FLAG_NO_CHECK_TIME: to read the dates of a certificate that is out of date.
NO_CHECK_TIME = 0x200000

CLIENT_CERTIFICATE_ALERTS = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "HANDSHAKE_FAILURE",
    "ACCESS_DENIED",
)


def tls_failure(
    cause: ssl.SSLError, spec: ClusterSpec, host: str, port: int, seconds: float
) -> UnderstudyError:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _unverified(cause, spec, host, port, seconds)
    reason = (cause.reason or "").upper()
    if "ALERT" in reason and any(word in reason for word in CLIENT_CERTIFICATE_ALERTS):
        return _client_certificate(reason, spec, f"{host}:{port}")
    words = reason.lower().replace("_", " ") or "the handshake failed"
    return KafkaUnavailable(
        f"The TLS handshake with {host}:{port} failed: {words}. Check which TLS versions and "
        "ciphers the broker allows.",
        code="tls",
    )


def _unverified(
    cause: ssl.SSLCertVerificationError, spec: ClusterSpec, host: str, port: int, seconds: float
) -> UnderstudyError:
    at, code = f"{host}:{port}", cause.verify_code
    if code in (EXPIRED, NOT_YET_VALID):
        shown = _presented(spec, host, port, seconds)
        key = "notAfter" if code == EXPIRED else "notBefore"
        date = f" ({shown[key]})" if key in shown else ""
        if code == EXPIRED:
            return KafkaUnavailable(
                f"The certificate of {at} has expired{date}. Renew it on the broker.",
                code="tls_expired",
            )
        return KafkaUnavailable(
            f"The certificate of {at} is not valid yet{date}. Check the clocks of both hosts, or "
            "wait.",
            code="tls_not_yet_valid",
        )
    if code in (HOST_MISMATCH, ADDRESS_MISMATCH):
        names = _names(_presented(spec, host, port, seconds))
        issued = f"is for {names}, not for {host}" if names else f"is not for {host}"
        return KafkaUnavailable(
            f"The certificate of {at} {issued}. Connect by a name in the certificate, or have it "
            "issued for this one.",
            code="tls_wrong_host",
        )
    if code in UNKNOWN_AUTHORITY:
        known = f"by the CA in {spec.ssl_ca}" if spec.ssl_ca else "by a CA that this host trusts"
        return KafkaUnavailable(
            f"The certificate of {at} was not issued {known}. Set the CA that issued it as ssl_ca.",
            code="tls_unknown_ca",
        )
    return KafkaUnavailable(
        f"The certificate of {at} is not accepted: {cause.verify_message}.", code="tls_certificate"
    )


def _client_certificate(reason: str, spec: ClusterSpec, at: str) -> UnderstudyError:
    if not spec.ssl_certificate:
        return KafkaUnavailable(
            f"{at} requires a client certificate, and the cluster has none. Set ssl_certificate "
            "and ssl_key.",
            code="tls_client_certificate",
        )
    why = "it has expired" if "EXPIRED" in reason else "the broker does not trust its issuer"
    return KafkaUnavailable(
        f"{at} does not accept the client certificate {spec.ssl_certificate}: probably {why}.",
        code="tls_client_certificate",
    )


def _presented(spec: ClusterSpec, host: str, port: int, seconds: float) -> dict[str, Any]:
    """The server's certificate, with its chain verified but neither dates nor name; empty if
    unknown."""
    try:
        context = tls_context(spec)
        if context is None:
            return {}
        context.check_hostname = False
        context.verify_flags |= NO_CHECK_TIME
        with (
            socket.create_connection((host, port), seconds) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return dict(secured.getpeercert() or {})
    except (OSError, UnderstudyError):
        return {}


def _names(certificate: dict[str, Any]) -> str:
    return ", ".join(value for _, value in certificate.get("subjectAltName", ())[:5])
