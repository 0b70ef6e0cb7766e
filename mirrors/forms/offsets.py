"""One source offset to look up, as a form."""

from __future__ import annotations

from django import forms

from mirrors.forms.settings import text_field


class OffsetForm(forms.Form):
    use_required_attribute = False
    topic = text_field("Topic", required=True, max_length=249)
    partition = forms.IntegerField(label="Partition", min_value=0, max_value=2**31 - 1, initial=0)
    offset = forms.IntegerField(label="Offset", min_value=0, max_value=2**63 - 1)
