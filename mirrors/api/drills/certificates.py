"""REST of certificates: the list, one as issued, the public keys, verification."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictSerializer
from mirrors.domain.access.rights import Right
from mirrors.models import Certificate, SigningKey
from mirrors.services.drills.certificates.issuance import verify_text
from mirrors.services.drills.evidence import export_evidence


class CertificateSerializer(serializers.ModelSerializer[Certificate]):
    drill_run = serializers.IntegerField(source="drill_run_id", read_only=True, allow_null=True)
    failover = serializers.IntegerField(source="failover_id", read_only=True, allow_null=True)
    supplements = serializers.CharField(
        source="supplements.number", read_only=True, allow_null=True, default=None
    )
    flow = serializers.IntegerField(source="flow_id", read_only=True, allow_null=True)

    class Meta:
        model = Certificate
        fields: tuple[str, ...] = (
            "number",
            "drill_run",
            "failover",
            "supplements",
            "flow",
            "flow_name",
            "passed",
            "issued_at",
        )


class WholeCertificateSerializer(CertificateSerializer):
    """`text` has the exact signed bytes: keep them unchanged. `document` is the parsed form."""

    document = serializers.SerializerMethodField()

    class Meta(CertificateSerializer.Meta):
        fields = (*CertificateSerializer.Meta.fields, "text", "document")

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_document(self, certificate: Certificate) -> Any:
        return json.loads(certificate.text)


class GivenSerializer(StrictSerializer):
    text = serializers.CharField(
        max_length=1024 * 1024, trim_whitespace=False, help_text="A certificate, byte for byte."
    )


class VerificationSerializer(serializers.Serializer[Any]):
    genuine = serializers.BooleanField()
    code = serializers.CharField()
    sentence = serializers.CharField()


class EvidenceAsk(StrictSerializer):
    """Both filter by the time of issue; `since` is inclusive, `until` is exclusive."""

    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    flow = serializers.CharField(default="", allow_blank=True, max_length=255)


class KeySerializer(serializers.ModelSerializer[SigningKey]):
    class Meta:
        model = SigningKey
        fields = ("fingerprint", "public_key", "first_used_at")


class CertificateViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Certificate]
):
    """Certificates of drills, including failed ones; newest first."""

    queryset = Certificate.objects.order_by("-id")
    serializer_class = CertificateSerializer
    # Verification changes nothing; it is a POST because it needs a body.
    write_right = Right.VIEW
    lookup_field = "number"
    lookup_value_regex = r"[0-9a-f]{6,64}"
    search_fields = ("flow_name", "number")
    ordering_fields = ("id", "issued_at", "flow_name")
    filter_fields: ClassVar = {"flow_name": "flow_name"}

    def get_serializer_class(self) -> Any:
        return CertificateSerializer if self.action == "list" else WholeCertificateSerializer

    @extend_schema(request=GivenSerializer, responses=VerificationSerializer)
    @action(detail=False, methods=["post"])
    def verify(self, request: Request) -> Response:
        """Whether a certificate is, byte for byte, as issued. Nothing is stored."""
        asked = GivenSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        found = verify_text(text=asked.validated_data["text"].strip().encode())
        return Response(VerificationSerializer(found).data)

    @extend_schema(parameters=[EvidenceAsk], responses=OpenApiTypes.OBJECT)
    @action(detail=False, pagination_class=None, filter_backends=[])
    def evidence(self, request: Request) -> Response:
        """Certificates of a period, each verified, with the fields of DORA articles 11 and 12."""
        asked = EvidenceAsk(data=request.query_params)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        return Response(
            export_evidence(
                since=given.get("since"),
                until=given.get("until"),
                flow_name=given["flow"],
                now=timezone.now(),
            )
        )

    @extend_schema(responses=KeySerializer(many=True))
    @action(detail=False, pagination_class=None, filter_backends=[])
    def keys(self, request: Request) -> Response:
        """The public keys (Ed25519, hex) of this installation's certificates."""
        rows = SigningKey.objects.order_by("pk")
        return Response(KeySerializer(rows, many=True).data)
