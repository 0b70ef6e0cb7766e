"""Failed SASL logins, explained in sentences."""

from __future__ import annotations

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.error_codes import Code
from mirrors.kafka.protocol.connection_errors import LoginRejected, ServerNotVerified


def login_failure(cause: Exception, spec: ClusterSpec, at: str) -> UnderstudyError:
    """The cause of a failed login at the broker `at`, and what to do."""
    if isinstance(cause, LoginRejected):
        return _login_rejected(cause, spec, at)
    if isinstance(cause, TimeoutError):
        return KafkaUnavailable(
            f"{at} did not respond to the {spec.sasl_mechanism} login in time.", code="timeout"
        )
    if isinstance(cause, ServerNotVerified):
        return KafkaRefused(
            f"{at} did not prove that it knows the password of {spec.sasl_username!r}: it may be "
            "an impostor.",
            code="sasl_server",
        )
    return KafkaUnavailable(
        f"{at} closed the connection during the {spec.sasl_mechanism} login. "
        "Check the user name and the secret.",
        code="sasl_password",
    )


def _login_rejected(refused: LoginRejected, spec: ClusterSpec, at: str) -> UnderstudyError:
    mechanism = spec.sasl_mechanism
    if refused.number == Code.UNSUPPORTED_SASL_MECHANISM:
        return KafkaRefused(
            f"{at} does not offer the SASL mechanism {mechanism}; it offers "
            f"{join_names(refused.mechanisms)}. Set sasl_mechanism to one of them.",
            code="sasl_mechanism",
        )
    if refused.number == Code.ILLEGAL_SASL_STATE:
        protocol = "SSL" if spec.security_protocol == "SASL_SSL" else "PLAINTEXT"
        return KafkaRefused(
            f"{at} does not accept a SASL login, but the cluster is set to "
            f"{spec.security_protocol}. Set {protocol}, or use the port of a SASL listener.",
            code="sasl_not_wanted",
        )
    if mechanism == "OAUTHBEARER":
        return KafkaRefused(
            f"{at} rejected the token of client {spec.sasl_username!r}. Check that the broker "
            "trusts the issuer, the audience and the scope of the token endpoint.",
            code="sasl_token",
        )
    return KafkaRefused(
        f"{at} rejected the {mechanism} login of {spec.sasl_username!r}: wrong user name or "
        f"wrong password. Check the secret {spec.sasl_password}.",
        code="sasl_password",
    )


def join_names(message: tuple[str, ...]) -> str:
    return ", ".join(sorted(message)) if message else "none"
