"""A certificate as PDF on A4, with the same tables as its page."""

from __future__ import annotations

import io
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table

from mirrors.domain.drills.certificates.tables import CertificateTable, tables_of, title_of
from mirrors.domain.formatting import visible

_INK, _FAINT, _LINE = colors.HexColor("#1a1c20"), colors.HexColor("#5c6068"), colors.lightgrey
_TEXT = ParagraphStyle("text", fontName="Helvetica", fontSize=8.5, leading=11, textColor=_INK)
_SOFT = ParagraphStyle("soft", parent=_TEXT, textColor=_FAINT)
_TITLE = ParagraphStyle("title", parent=_TEXT, fontName="Helvetica-Bold", fontSize=16, leading=20)
_HEAD = ParagraphStyle("head", parent=_TEXT, fontName="Helvetica-Bold", spaceBefore=10)
_WIDTH = A4[0] - 36 * mm
# Sentences; name and value; then by the number of columns of the tables with a header.
_SHARES = {1: (1.0,), 2: (0.3, 0.7), 4: (0.46, 0.18, 0.18, 0.18), 5: (0.34, 0.11, 0.2, 0.1, 0.25)}


def draw_pdf(*, document: dict[str, Any], address: str) -> bytes:
    """`address` is where anybody can verify it."""
    story: list[Flowable] = [
        Paragraph(_safe(document["kind"].capitalize()), _SOFT),
        Paragraph(_safe(title_of(document)), _TITLE),
        Spacer(1, 2 * mm),
    ]
    for table in tables_of(document):
        story += [Paragraph(_safe(table.title), _HEAD), _table(table)]
    words = (
        "This printout is for reading. The signature covers the JSON form of this certificate: "
        f"verify that, or look up this number at {address}"
    )
    story += [Spacer(1, 4 * mm), Paragraph(_safe(words), _SOFT)]
    number = document["number"]
    file = io.BytesIO()
    paper = SimpleDocTemplate(
        file,
        pagesize=A4,
        leftMargin=18 * mm,
        rightMargin=18 * mm,
        topMargin=16 * mm,
        bottomMargin=18 * mm,
        title=f"{document['kind'].capitalize()} {number}",
        author="Understudy",
        # Equal certificates give equal files.
        invariant=1,
    )

    def foot(canvas: Canvas, _: Any) -> None:
        canvas.setFont("Helvetica", 7.5)
        canvas.setFillColor(_FAINT)
        canvas.drawString(18 * mm, 10 * mm, f"Certificate {number}")
        canvas.drawRightString(A4[0] - 18 * mm, 10 * mm, f"Page {canvas.getPageNumber()}")

    paper.build(story, onFirstPage=foot, onLaterPages=foot)
    return file.getvalue()


def _table(content: CertificateTable) -> Table:
    rows = [[Paragraph(_safe(cell), _SOFT) for cell in content.header]] if content.header else []
    first = _SOFT if len(content.rows[0]) == 2 else _TEXT
    rows += [
        [Paragraph(_safe(cell), _TEXT if at else first) for at, cell in enumerate(row)]
        for row in content.rows
    ]
    shares = _SHARES[len(content.rows[0])]
    table = Table(
        rows,
        colWidths=[share * _WIDTH for share in shares],
        repeatRows=1 if content.header else 0,
        hAlign="LEFT",
        # One long row must not be higher than a page.
        splitInRow=1,
    )
    table.setStyle(
        [
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEBELOW", (0, 0), (-1, -1), 0.4, _LINE),
            ("TOPPADDING", (0, 0), (-1, -1), 2),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 3),
        ]
    )
    return table


def _safe(text: str) -> str:
    """Escapes markup, and replaces characters that the font lacks by their code."""
    plain = visible(text).replace("→", "->")
    return escape(plain.encode("cp1252", "backslashreplace").decode("cp1252"))
