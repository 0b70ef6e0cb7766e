"""Pages of certificates: show, print and download one; verify one without an account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from mirrors.domain.access.rights import Right
from mirrors.domain.drills.certificates.signature import LONGEST, Verification
from mirrors.domain.drills.certificates.tables import state_of, tables_of, title_of
from mirrors.models import Certificate, SigningKey, needs
from mirrors.models.audit.chain import origin
from mirrors.services.drills.certificates.issuance import evidence_of, verify_text
from mirrors.services.drills.certificates.pdf import draw_pdf
from mirrors.services.drills.evidence import as_text, export_evidence
from mirrors.services.errors import TooMany
from mirrors.views.page import curl, render_page
from mirrors.views.tables import clean

_A_MINUTE = 60
# Room for the form's encoding of the longest certificate: up to three bytes a character.
_MOST_SENT = 3 * LONGEST + 64 * 1024


@require_safe
@needs(Right.VIEW)
def show_certificate(request: HttpRequest, number: str) -> HttpResponse:
    known = _known(number)
    found = verify_text(text=known.text.encode())
    context = {
        "certificate": known,
        "verification": found,
        "title": title_of(found.document) if found.document else f"Certificate {number}",
        "result": found.document["result"] if found.document else "",
        "result_state": state_of(found.document) if found.document else "unknown",
        "sheets": tables_of(found.document) if found.genuine and found.document else (),
        "kept": _evidence(known) is not None,
        "later": known.supplemented_by.all(),
        "address": request.build_absolute_uri(reverse("verify-one", args=[number])),
        "commands": [
            curl(request, "Read this certificate", "GET", f"certificates/{number}/"),
        ],
    }
    return render_page(request, "mirrors/drills/certificate.html", context, section="drills")


@require_safe
@needs(Right.VIEW)
def download_certificate(request: HttpRequest, number: str, form: str) -> HttpResponse:
    """`json` is the certificate, `pdf` its printable form, `evidence` what its digest covers."""
    known = _known(number)
    if form == "pdf":
        found = verify_text(text=known.text.encode())
        if not found.genuine or found.document is None:
            raise Http404("This certificate does not verify, so there is no PDF of it.")
        address = request.build_absolute_uri(reverse("verify-one", args=[number]))
        body, mime = draw_pdf(document=found.document, address=address), "application/pdf"
        return _file(body, mime, f"certificate-{number}.pdf")
    if form == "evidence":
        evidence = _evidence(known)
        if evidence is None:
            raise Http404("The evidence has expired and was deleted; its digest is kept.")
        return _file(evidence, "application/json", f"evidence-{number}.json")
    return _file(known.text.encode(), "application/json", f"certificate-{number}.json")


@require_safe
@needs(Right.VIEW)
def download_evidence(request: HttpRequest) -> HttpResponse:
    """All certificates as one document for auditors."""
    document = export_evidence(since=None, until=None, now=timezone.now())
    return _file(as_text(document).encode(), "application/json", "evidence.json")


@csrf_exempt
@login_not_required
@needs(None)
@require_http_methods(["GET", "HEAD", "POST"])
def verify_any(request: HttpRequest) -> HttpResponse:
    """Verify a pasted or uploaded certificate. Nothing is stored, so no CSRF token is needed."""
    if request.method != "POST":
        number = request.GET.get("number", "").strip()
        if number:
            return verify_one(request, number)
        return _verify_page(request)
    if refused := _throttled(request):
        return refused
    if int(request.META.get("CONTENT_LENGTH") or 0) > _MOST_SENT:
        words = f"That is larger than {LONGEST // 1024} KiB. Certificates are smaller."
        return _verify_page(request, error=words, status=413)
    given = _given(request)
    if not given:
        return _verify_page(request, error="Paste a certificate, or choose its file.", status=422)
    return _verify_page(request, found=verify_text(text=given))


@login_not_required
@needs(None)
@require_safe
def verify_one(request: HttpRequest, number: str) -> HttpResponse:
    """A certificate by its number, as issued here. The number is the secret that gives access."""
    if refused := _throttled(request):
        return refused
    known = Certificate.objects.filter(number=clean(number)[:64]).first()
    if known is None:
        words = "No certificate with this number was issued here. Check the number."
        return _verify_page(request, error=words, status=404)
    return _verify_page(request, found=verify_text(text=known.text.encode()))


def _given(request: HttpRequest) -> bytes:
    """The uploaded text, else the pasted one. Reads past the limit, to detect a longer text."""
    file = request.FILES.get("file")
    if file is not None:
        return bytes(file.read(LONGEST + 1))
    # Pasting may add white space around the text; a certificate has none there.
    return request.POST.get("text", "").strip().encode("utf-8", "surrogatepass")


def _verify_page(
    request: HttpRequest, *, found: Verification | None = None, error: str = "", status: int = 200
) -> HttpResponse:
    genuine = found is not None and found.genuine
    document = found.document if found is not None and genuine else None
    context: dict[str, Any] = {
        "found": found,
        "error": error,
        "title": title_of(document) if document else "Verify a certificate",
        "sheets": tables_of(document) if document else (),
        "keys": SigningKey.objects.order_by("-pk")[:10],
    }
    response = render(request, "mirrors/drills/verify_certificate.html", context, status=status)
    response.headers["Cache-Control"] = "no-store"
    return response


def _throttled(request: HttpRequest) -> HttpResponse | None:
    """Limit requests per minute and address. The count is per process, in memory."""
    minute = int(timezone.now().timestamp()) // _A_MINUTE
    key = f"verify:{origin.get().network}:{minute}"
    limit = settings.UNDERSTUDY_VERIFICATIONS_PER_MINUTE
    cache.add(key, 0, timeout=2 * _A_MINUTE)
    try:
        asked = cache.incr(key)
    except ValueError:
        # Evicted from the cache: the count restarts.
        asked = 1
    if asked <= limit:
        return None
    error = TooMany(
        f"{limit} verifications per minute and address are allowed. Wait a minute, or verify on "
        "your own machine with the command verify_certificate."
    )
    return _verify_page(request, error=error.message, status=429)


def _known(number: str) -> Certificate:
    rows = Certificate.objects.select_related("drill_run__run", "failover", "supplements")
    return get_object_or_404(rows, number=clean(number)[:64])


def _evidence(known: Certificate) -> bytes | None:
    return evidence_of(known.drill_run.run if known.drill_run else known.failover)


def _file(body: bytes, mime: str, name: str) -> HttpResponse:
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(body, content_type=mime, headers={"Content-Disposition": disposition})
