"""The form that imports a MirrorMaker configuration: pasted or uploaded."""

from __future__ import annotations

from typing import Any

from django import forms

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.migration.imports.plan import LONGEST_TEXT, ImportKind
from mirrors.forms.base import SettingsForm, text_field
from mirrors.services.migration.import_export import kind_of, text_of

LABELS: dict[ImportKind, str] = {
    "mm2-properties": "mm2.properties of MirrorMaker 2",
    "strimzi": "KafkaMirrorMaker2 resource of Strimzi",
    "connect-json": "JSON of the three connectors on Kafka Connect",
    "mirrormaker1": "Command and files of MirrorMaker 1",
}


class ImportForm(SettingsForm):
    rest = "text"
    kind = forms.ChoiceField(label="Format", choices=LABELS.items())
    text = text_field("Text", area=18, max_length=LONGEST_TEXT, strip=False)
    file = forms.FileField(label="Or a file", required=False, allow_empty_file=True)
    leave_out = forms.BooleanField(label="Leave out what MirrorMaker 2 ignores", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[
            "text"
        ].help_text = (
            "Referenced files are not read. Nothing is created before you confirm the preview."
        )
        self.fields[
            "leave_out"
        ].help_text = "Otherwise such lines stop the import: they may be misspelled settings."
        self.fields["file"].help_text = "UTF-8 text of at most 512 KiB; it fills the field above."

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if upload := data.get("file"):
            try:
                data["text"] = text_of(upload.read(LONGEST_TEXT + 1))
            except UnderstudyError as error:
                self.add_error("file", error.message)
        elif not data.get("text") and "text" not in self.errors:
            self.add_error("text", "Paste a text, or choose a file.")
        return data

    @property
    def chosen(self) -> ImportKind:
        return kind_of(self.cleaned_data["kind"])
