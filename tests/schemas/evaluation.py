"""Rules on records of a registry, evaluated by Spark as a preview does."""

from __future__ import annotations

from pyspark.sql import SparkSession

from mirrors.domain.schemas.registry import URL, RegistrySpec, registry_of
from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    EvaluationRequest,
    RecordParts,
    SampledRecord,
)
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.sql.previews import evaluate


def place_at(url: str) -> RegistrySpec:
    found = registry_of("east", {URL: url})
    assert found is not None
    return found


def evaluated(
    spark: SparkSession,
    place: RegistrySpec,
    *values: bytes | None,
    target: RegistrySpec | None = None,
    **fields: str,
) -> list[EvaluatedRecord]:
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
    )
    found = evaluate(spark, EvaluationRequest.from_json(request.to_json()))
    assert not found.rejections, found.rejections
    assert not found.error
    return list(found.records)


def value_of(row: EvaluatedRecord) -> bytes | None:
    assert row.after is not None, row.message
    return row.after.value
