"""Shared by serializers and views: unknown fields are errors; filters and orders by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import BooleanField, F, Field, IntegerField, Model, OrderBy, QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import filters, serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from mirrors.domain.transforms.rules import TRANSFORMS, in_one_line
from mirrors.models import Flow
from mirrors.models.access.grants import Owned, demand_here, seen


class StrictMixin:
    """Rejects, by name, a field that does not exist or cannot be set."""

    def get_fields(self) -> dict[str, serializers.Field]:
        fields: dict[str, serializers.Field] = super().get_fields()  # type: ignore[misc]
        for field in fields.values():
            if isinstance(field, serializers.ChoiceField):
                words = ", ".join(str(choice) for choice in field.choices)
                field.error_messages["invalid_choice"] = f'"{{input}}" is not one of {words}.'
            one = field.child_relation if isinstance(field, serializers.ManyRelatedField) else field
            if isinstance(one, serializers.PrimaryKeyRelatedField):
                one.error_messages["incorrect_type"] = "Enter the id, a whole number."
        return fields

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            fields: Mapping[str, serializers.Field] = self.fields  # type: ignore[attr-defined]
            known = ", ".join(name for name, field in fields.items() if not field.read_only)
            errors = {}
            for name in data:
                if name not in fields:
                    errors[str(name)] = [f"This field does not exist. Fields: {known}."]
                elif fields[name].read_only:
                    errors[str(name)] = ["This field is read-only."]
            if errors:
                raise serializers.ValidationError(errors)
        return super().to_internal_value(data)  # type: ignore[misc]


class StrictSerializer(StrictMixin, serializers.Serializer):
    """A serializer without a model."""


class StrictModelSerializer(StrictMixin, serializers.ModelSerializer):
    """A serializer of a model's rows; services write, never `save`."""


class PropertiesField(serializers.DictField):
    """String keys and string values, as in a properties file."""

    child = serializers.CharField(allow_blank=True, max_length=20_000, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        found: dict[str, str] = super().to_internal_value(data)
        if TRANSFORMS in found:
            # A file may have it in several lines.
            found[TRANSFORMS] = in_one_line(found[TRANSFORMS])
        return found


class VisibleField(serializers.SlugRelatedField[Any]):
    """A cluster, runner or rule by its name, among those that the person may view."""

    def get_queryset(self) -> QuerySet[Any]:
        rows: Any = super().get_queryset()
        return seen(rows)


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class FlowField(serializers.Field[Flow, Any, Any, Any]):
    """A flow by id or by name, such as `primary->backup`; shown as its id.

    The person needs the right of the request on it.
    """

    def to_internal_value(self, data: Any) -> Flow:
        flows = Flow.objects.select_related("source", "target", "runner")
        if isinstance(data, int) and not isinstance(data, bool) and 0 < data < 2**63:
            found = flows.filter(pk=data).first()
        elif isinstance(data, str) and data.isascii() and data.isdecimal() and len(data) < 19:
            found = flows.filter(pk=int(data)).first()
        elif isinstance(data, str):
            found = flows.filter(pk=id_of_flow(data)).first()
        else:
            raise serializers.ValidationError("Enter a flow's id or its name.")
        if found is None or not seen(flows.filter(pk=found.pk)).exists():
            raise serializers.ValidationError(f"There is no flow {str(data)[:200]}.")
        demand_here(found)
        return found

    def get_attribute(self, instance: Any) -> Any:
        """The id as the row has it: the flow itself would cost a query for each row."""
        if isinstance(instance, Model) and len(self.source_attrs) == 1:
            return instance.serializable_value(self.source_attrs[0])
        return super().get_attribute(instance)

    def to_representation(self, value: Flow | int) -> int:
        return value.pk if isinstance(value, Flow) else value


def id_of_flow(name: str) -> int:
    """The id of the flow with this name; 0, which no flow has, if there is none."""
    source, _, target = name.replace("\x00", "").partition("->")
    rows = Flow.objects.filter(source__alias=source, target__alias=target)
    return rows.values_list("pk", flat=True).first() or 0


class ReasonSerializer(StrictSerializer):
    """The person's reason; recorded in the transition."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class VisibleRows(filters.BaseFilterBackend):
    """The first filter of every list: the rows that the person may view.

    A view set's query exists before any request, so the manager of its rows has not filtered it.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        return seen(queryset) if issubclass(queryset.model, Owned) else queryset


class ExactFilter(filters.BaseFilterBackend):
    """`?state=running`: a view's `filter_fields` maps each parameter to a lookup.

    A value that the column cannot hold is rejected by the parameter's name, before the database
    sees it, since databases differ in their errors.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        wanted: dict[str, Any] = {}
        for name, lookup in getattr(view, "filter_fields", {}).items():
            value = request.query_params.get(name)
            if value is not None:
                wanted[lookup] = _value_of(queryset.model, name, lookup, value)
        return queryset.filter(**wanted) if wanted else queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in getattr(view, "filter_fields", {})
        ]


def _value_of(model: type[Model], name: str, lookup: str, text: str) -> Any:
    """The text as a value of the lookup's column."""
    if "\x00" in text:
        raise ValidationError({name: ["It contains a NUL character."]})
    column = _column(model, lookup)
    if name == "flow" and "->" in text and isinstance(column, IntegerField):
        return id_of_flow(text)
    if isinstance(column, IntegerField):
        # Eighteen digits fit every database. int() alone would accept digits of other scripts.
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValidationError({name: ["Enter a whole number."]})
        return int(text)
    if isinstance(column, BooleanField):
        if text.lower() not in ("true", "false"):
            raise ValidationError({name: ["Enter true or false."]})
        return text.lower() == "true"
    known = [str(value) for value, _ in getattr(column, "choices", None) or ()]
    if known and text not in known:
        raise ValidationError({name: [f"{text[:40]!r} is not one of {', '.join(known)}."]})
    try:
        return text if column is None else column.to_python(text)
    except (DjangoValidationError, ValueError, TypeError, ArithmeticError):
        kind = str(column.description if column else "value").lower()
        raise ValidationError({name: [f"It cannot be read as {kind}."]}) from None


def _column(model: type[Model], lookup: str) -> Field[Any, Any] | None:
    """The field that a lookup ends at: the key for a relation, None for an annotation."""
    field: Any = None
    try:
        for part in lookup.split("__"):
            field = model._meta.get_field(part)
            model = getattr(field, "related_model", None) or model
    except FieldDoesNotExist:
        return None
    return getattr(field, "target_field", field) if field.is_relation else field


class Search(filters.SearchFilter):
    """A search that rejects NUL by the parameter's name."""

    def get_search_terms(self, request: Request) -> Any:
        try:
            return super().get_search_terms(request)
        except ValidationError as error:
            raise ValidationError({self.search_param: error.detail}) from None


class Ordering(filters.OrderingFilter):
    """An unknown order is an error instead of being ignored; unknown values come last."""

    def remove_invalid_fields(
        self, queryset: QuerySet[Any], fields: Any, view: Any, request: Request
    ) -> list[Any]:
        aliases: dict[str, tuple[str, ...]] = getattr(view, "ordering_aliases", {})
        known = {name for name, _ in self.get_valid_fields(queryset, view, {"request": request})}
        found: list[str | OrderBy] = []
        for field in fields:
            name, down = field.removeprefix("-"), field.startswith("-")
            if name not in known and name not in aliases:
                words = ", ".join(sorted({*known, *aliases}))
                raise ValidationError({"ordering": [f"{field!r} is not one of {words}."]})
            found += [_order(queryset.model, one, down) for one in aliases.get(name, (name,))]
        # The key at the end keeps pages stable if rows are equal.
        return [*found, "pk"]


def _order(model: type[Model], column: str, down: bool) -> str | OrderBy:
    """A column that is never null stays a name: only then PostgreSQL can use its index."""
    field = _column(model, column)
    if column == "pk" or (field is not None and not field.null):
        return f"-{column}" if down else column
    return F(column).desc(nulls_last=True) if down else F(column).asc(nulls_last=True)


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """The validated body of a request; an empty one has the defaults."""
    given = serializer(data=request.data or {})
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)


def reason_of(request: Request) -> str:
    return str(body_of(request, ReasonSerializer).get("reason", ""))


def person(request: Request) -> str:
    return str(request.user.get_username())
