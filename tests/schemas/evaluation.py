"""Rules on records of a registry, evaluated by Spark as a preview does."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mirrors.domain.schemas.registry import URL, RegistrySpec, registry_of
from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    PathLookup,
    RecordParts,
    SampledRecord,
)
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.sql.previews import evaluate


def place_at(url: str) -> RegistrySpec:
    found = registry_of("east", {URL: url})
    assert found is not None
    return found


def response_of(
    spark: SparkSession,
    place: RegistrySpec,
    *values: bytes | None,
    target: RegistrySpec | None = None,
    lookups: tuple[PathLookup, ...] = (),
    **fields: str,
) -> EvaluationResponse:
    """What a rule with these expressions makes of each value."""
    request = EvaluationRequest(
        topic="people",
        rules=(TransformRule(topics=".*", **fields),),
        rule=0,
        records=tuple(
            SampledRecord(0, number, -1, False, RecordParts(None, value, ()))
            for number, value in enumerate(values)
        ),
        registry=place,
        target_registry=target,
        lookups=lookups,
    )
    found = evaluate(spark, EvaluationRequest.from_json(request.to_json()))
    assert not found.rejections, found.rejections
    assert not found.error
    return EvaluationResponse.from_json(found.to_json())


def evaluated(
    spark: SparkSession, place: RegistrySpec, *values: bytes | None, **more: Any
) -> list[EvaluatedRecord]:
    return list(response_of(spark, place, *values, **more).records)


def value_of(row: EvaluatedRecord) -> bytes | None:
    assert row.after is not None, row.message
    return row.after.value
