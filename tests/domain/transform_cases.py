"""Expressions of rules that pass the check without Spark; Spark accepts them too."""

from __future__ import annotations

GOOD = [
    ("where", "value is not null"),
    ("where", "not(`Value` is null)"),
    ("where", "exists(headers, h -> h.key = 'a')"),
    ("where", "header(headers, 'region') = X'00' or HEADER(headers, 'a') is null"),
    ("where", "topic rlike r'a\\.b' and topic rlike '\\\\A(?:a)'"),
    ("where", "topic like any ('a%', 'b%')"),
    ("where", "timestamp > timestamp'2020-01-01' + interval 1 day"),
    ("where", "cast(offset as decimal(10, 2)) > 5"),
    ("where", "get_json_object(cast(value as string), '$.region') = 'eu' and partition in (0, 1)"),
    ("where", "extract(year from timestamp) = 2020 or unix_timestamp(timestamp) > 5"),
    ("where", "headers[0].key = 'a' or array_contains(headers.key, 'b')"),
    ("where", "value is null or json_keep(value, 'a', '`b.c`') = value"),
    ("key", "cast(concat(topic, '-', partition) as binary)"),
    ("key", "case when offset % 2 = 0 then key else null end"),
    ("value", "json_mask(json_drop(value, 'card.number'), null, 'name')"),
    ("value", "json_mask(value, 'x', 'a')"),
    ("value", "json_hmac(value, 'env:SALT', 'ssn')"),
    ("where", "json_get(value, 'a.b') = 'x' and avro_get(value, 'region') <> 'US'"),
    ("value", "avro_drop(avro_mask(avro_hmac(value, 'env:SALT', 'ssn'), null, 'name'), 'card')"),
    ("value", "avro_json(value)"),
    ("where", "protobuf_get(value, 'a.b') = 'x' and protobuf_json(value) <> ''"),
    (
        "value",
        "protobuf_drop(protobuf_mask(protobuf_hmac(value, 'env:SALT', 'a'), null, 'b'), 'c')",
    ),
    ("value", "hmac_value(value, 'file:/run/secrets/salt') -- a comment"),
    ("value", "if(value is null, null, json_mask(value, 'x', 'a'))"),
    ("value", "from_json(cast(value as string), 'a struct<b:string>').a.b"),
    ("value", "to_json(named_struct('offset', offset))"),
    ("value", "trim(both 'x' from cast(value as string))"),
    ("headers", "set_header(headers, 'a', value)"),
    ("headers", "filter(headers, h -> h.key not in ('a', 'b'))"),
    ("headers", "concat(headers, array(named_struct('key', 'a', 'value', cast('x' as binary))))"),
    (
        "headers",
        "if(exists(headers, h -> h.key = 'it\\'s'), concat(headers, array(named_struct('key', 'a', "
        "'value', cast(null as binary)))), headers)",
    ),
    ("where", "concat('A.', topic) rlike '^(?:A\\\\.orders.*)$'"),
    ("headers", "transform(headers, h -> named_struct('key', lower(h.key), 'value', h.value))"),
]
