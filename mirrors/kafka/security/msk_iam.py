"""Tokens for Amazon MSK with AWS IAM, signed by `aws-msk-iam-sasl-signer-python`.

MSK accepts them as OAUTHBEARER at its IAM port (9098, public 9198). The package is the extra `aws`.
AWS's own chain finds the identity: variables, a profile, the role of the pod or of the machine. Its
requests have time-outs of their own that are longer than a login may take, so it runs on a thread.
"""

from __future__ import annotations

import importlib
import queue
import threading
from typing import Any

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.settings.connection import MSK_REGION, MSK_ROLE
from mirrors.domain.specs import ClusterSpec

_MODULE = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"


def sign_token(spec: ClusterSpec, *, deadline_s: float) -> tuple[str, float]:
    """Return a token, and when it expires in seconds since the epoch.

    Raises KafkaRefused without the package or an identity, KafkaUnavailable after the deadline.
    """
    try:
        provider = importlib.import_module(_MODULE)
    except ImportError:
        raise KafkaRefused(
            f"Cluster {spec.alias} logs in with AWS IAM, and the package "
            "aws-msk-iam-sasl-signer-python is missing here. Install understudy[aws] where the "
            "connection is made.",
            code="msk_iam_package",
        ) from None
    found: queue.Queue[tuple[str, float] | Exception] = queue.Queue(1)
    thread = threading.Thread(target=_sign, args=(provider, spec, found), daemon=True)
    thread.start()
    try:
        answer = found.get(timeout=deadline_s)
    except queue.Empty:
        raise KafkaUnavailable(
            f"AWS did not return an identity for cluster {spec.alias} in {deadline_s:.0f} s. Check "
            "that this host reaches STS or its metadata service.",
            code="msk_iam_unreachable",
        ) from None
    if isinstance(answer, Exception):
        # The exception's text may quote a request; its class names the cause.
        raise KafkaRefused(
            f"AWS gave no identity for cluster {spec.alias} ({type(answer).__name__}). Give this "
            "host credentials with kafka-cluster:Connect: AWS variables, a profile, or a role.",
            code="msk_iam_refused",
        ) from None
    return answer


def _sign(
    provider: Any, spec: ClusterSpec, found: queue.Queue[tuple[str, float] | Exception]
) -> None:
    region, role = spec.properties[MSK_REGION], spec.properties.get(MSK_ROLE)
    try:
        if role:
            token, expires_ms = provider.generate_auth_token_from_role_arn(region, role)
        else:
            token, expires_ms = provider.generate_auth_token(region)
        found.put((str(token), float(expires_ms) / 1000))
    except Exception as error:  # noqa: BLE001 - whatever AWS's packages raise
        found.put(error)
