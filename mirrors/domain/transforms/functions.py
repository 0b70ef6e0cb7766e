"""What expressions may use: the columns of a record, helper functions, and Spark's functions.

Names are those of Spark 4.3.0. A function is refused if its result depends on other records, or
on when and where it is evaluated: order and exactly once hold only for one record at a time.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final, Literal

# Name and Spark SQL type of each column, in order. `headers` is empty, never null.
COLUMNS: Final = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}

# - value: binary or string; the result has the same type, and is null for null.
# - text: a text in quotes. replacement: the same, or null.
# - secret: a reference to a secret in quotes, such as env:NAME or file:/path; never the secret.
# - path: a text in quotes (`field_names`).
# - paths: one path or more.
# - headers: an array as the column `headers`. binary: binary or string, also null.
ArgumentType = Literal[
    "value", "text", "replacement", "secret", "path", "paths", "headers", "binary"
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HelperFunction:
    """A function that runners register in Spark in addition to Spark's own functions."""

    name: str
    arguments: tuple[ArgumentType, ...]
    # Spark SQL type of the result; `value` for the type of the first argument.
    result: str
    meaning: str
    # Needs the schema registry of the source.
    reads_schemas: bool = False
    # Needs that of the target too.
    maps_ids: bool = False

    @property
    def signature(self) -> str:
        """As people write it: `json_drop(value, 'path', …)`."""
        return f"{self.name}({', '.join(_SHOWN[argument] for argument in self.arguments)})"


_SHOWN: dict[ArgumentType, str] = {
    "value": "value",
    "text": "'name'",
    "replacement": "'replacement'",
    "secret": "'secret-reference'",
    "path": "'path'",
    "paths": "'path', …",
    "headers": "headers",
    "binary": "value",
}
HELPERS: Final = {
    helper.name: helper
    for helper in (
        HelperFunction(
            name="json_drop",
            arguments=("value", "paths"),
            result="value",
            meaning="Removes fields of a JSON object. A missing field changes nothing.",
        ),
        HelperFunction(
            name="json_keep",
            arguments=("value", "paths"),
            result="value",
            meaning="Removes all fields of a JSON object except these.",
        ),
        HelperFunction(
            name="json_mask",
            arguments=("value", "replacement", "paths"),
            result="value",
            meaning="Replaces fields of a JSON object with the text, or with a number where it is "
            'one. With null: with "", 0, false, [] or {}, as fits the field. A field that is null '
            "or missing stays so.",
        ),
        HelperFunction(
            name="json_hmac",
            arguments=("value", "secret", "paths"),
            result="value",
            meaning="Replaces fields of a JSON object with the hexadecimal HMAC-SHA-256 of their "
            "text: equal fields stay equal. A field that is null or missing stays so.",
        ),
        HelperFunction(
            name="json_get",
            arguments=("value", "path"),
            result="string",
            meaning="A field of a JSON object as text, an object or list as JSON. Null if it is "
            "null or missing.",
        ),
        HelperFunction(
            name="avro_get",
            arguments=("value", "path"),
            result="string",
            meaning="A field of an Avro record as text, a record, list or map as JSON. Null if it "
            "is null or missing.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="avro_json",
            arguments=("value",),
            result="string",
            meaning="An Avro record as JSON, with bytes as Base64.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="avro_drop",
            arguments=("value", "paths"),
            result="value",
            meaning="Replaces fields of an Avro record by the default of the schema, or by null. A "
            "field without a default that cannot be null fails. A missing field changes nothing.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="avro_mask",
            arguments=("value", "replacement", "paths"),
            result="value",
            meaning="Replaces fields of an Avro record by the text, as their type reads it. With "
            "null: by an empty text or list, 0, false, or the first symbol. A field that is null "
            "or missing stays so.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="avro_hmac",
            arguments=("value", "secret", "paths"),
            result="value",
            meaning="Replaces string or bytes fields of an Avro record by the hexadecimal "
            "HMAC-SHA-256 of their content. A field that is null or missing stays so.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="protobuf_get",
            arguments=("value", "path"),
            result="string",
            meaning="A field of a Protobuf record as text, bytes as Base64, a message, list or map "
            "as JSON. Null if it is not set; the default of the type if the schema does not tell "
            "the two apart.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="protobuf_json",
            arguments=("value",),
            result="string",
            meaning="A Protobuf record as JSON, with the names of the schema and bytes as Base64.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="protobuf_drop",
            arguments=("value", "paths"),
            result="value",
            meaning="Removes fields of a Protobuf record. A required field fails. A missing field "
            "changes nothing.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="protobuf_mask",
            arguments=("value", "replacement", "paths"),
            result="value",
            meaning="Replaces fields of a Protobuf record, each element of a list, by the text, as "
            "their type reads it. With null: by an empty text, message or list, 0, false, or the "
            "first symbol. A field that is missing stays so.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="protobuf_hmac",
            arguments=("value", "secret", "paths"),
            result="value",
            meaning="Replaces string or bytes fields of a Protobuf record by the hexadecimal "
            "HMAC-SHA-256 of their content. A field that is missing stays so.",
            reads_schemas=True,
        ),
        HelperFunction(
            name="target_schema",
            arguments=("value",),
            result="value",
            meaning="The value with the id that the target's registry has for the same schema, "
            "under one of its subjects. Of Avro, JSON Schema and Protobuf. Use it outermost.",
            reads_schemas=True,
            maps_ids=True,
        ),
        # Not `hmac`: Spark has a function of that name, which wins over a registered one.
        HelperFunction(
            name="hmac_value",
            arguments=("value", "secret"),
            result="value",
            meaning="The hexadecimal HMAC-SHA-256 of a value: equal values stay equal.",
        ),
        HelperFunction(
            name="header",
            arguments=("headers", "text"),
            result="binary",
            meaning="The value of the last header of that name; null if there is none.",
        ),
        HelperFunction(
            name="set_header",
            arguments=("headers", "text", "binary"),
            result=COLUMNS["headers"],
            meaning="The headers with this one at the end, and without others of its name.",
        ),
    )
}


_WORD = re.compile(r"\w+")


def schema_functions(text: str) -> tuple[HelperFunction, ...]:
    """Return the functions in an expression that need a schema registry."""
    named = [HELPERS.get(word.lower()) for word in _WORD.findall(text)]
    return tuple(helper for helper in named if helper is not None and helper.reads_schemas)


def reader_of(function: str) -> str:
    """Return the function that gives the record of this one as JSON; empty for JSON itself."""
    helper = HELPERS.get(function)
    return f"{family_of(function)}_json" if helper is not None and helper.reads_schemas else ""


def family_of(function: str) -> str:
    """Return what a function reads: json, avro or protobuf."""
    return function.partition("_")[0]


def field_names(path: str) -> tuple[str, ...]:
    """Return the names of a path, from the outermost field: `a.b` is field b of field a.

    A name with a dot stands between backquotes. A list is entered element by element, without a
    name of its own. Raises ValueError with a clause.
    """
    names: list[str] = []
    rest = path
    while True:
        quoted = rest.startswith("`")
        name, sign, rest = rest[1:].partition("`") if quoted else _to_dot(rest)
        if not name or (quoted and (not sign or (rest and not rest.startswith(".")))):
            raise ValueError(
                f"is not a path: {path[:60]!r}; write names separated by dots, and a name with a "
                "dot between backquotes"
            )
        names.append(name)
        if quoted:
            sign, rest = rest[:1], rest[1:]
        if not sign:
            return tuple(names)


def _to_dot(text: str) -> tuple[str, str, str]:
    name, sign, rest = text.partition(".")
    return ("", sign, rest) if "`" in name else (name, sign, rest)


def quoted_name(name: str) -> str:
    """Return the path of a field of the outermost object. Raises ValueError for a backquote."""
    path = f"`{name}`" if "." in name else name
    field_names(path)
    return path


_SCALAR = """
abs acos acosh add_months aggregate approx_top_k_estimate array array_append array_compact
array_contains array_distinct array_except array_insert array_intersect array_join array_max
array_min array_position array_prepend array_remove array_repeat array_size array_sort array_union
arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64 bigint bin binary
bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround
btrim cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate
collation concat concat_ws contains conv convert_timezone cos cosh cot crc32 csc date date_add
date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart
day dayname dayofmonth dayofweek dayofyear decimal decode degrees double e element_at elt encode
endswith equal_null exists exp expm1 extract factorial filter find_in_set flatten float floor
forall format_number format_string from_base32 from_csv from_json from_unixtime from_utc_timestamp
from_xml get get_json_object getbit greatest hash hex hll_sketch_estimate hll_union hour hypot if
ifnull initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
jaro_winkler_similarity json_array_length json_object_keys kll_sketch_get_n_bigint
kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
kll_sketch_to_string_double kll_sketch_to_string_float last_day lcase least left len length
levenshtein ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date make_dt_interval
make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname
months_between named_struct nanvl negative next_day nullif nullifzero nvl nvl2 octet_length
overlay parse_json parse_url pi pmod position positive pow power printf quarter quote radians
raise_error reduce regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like
regexp_replace regexp_substr repeat replace reverse right rint round rpad rtrim schema_of_csv
schema_of_json schema_of_variant schema_of_xml sec second sentences sequence sha sha1 sha2
shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array
soundex space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
startswith str_to_map string struct substr substring substring_index tan tanh theta_difference
theta_intersection theta_sketch_estimate theta_union time time_bucket time_diff time_from_micros
time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint to_base32
to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz
to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform
transform_keys transform_values translate trim trunc try_add try_divide try_element_at
try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
try_multiply try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number
try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append
try_variant_get try_variant_insert try_variant_set tuple_difference_double
tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
tuple_union_theta_integer typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos
unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 variant_array_append
variant_delete variant_get variant_insert variant_set variant_strip_nulls vector_cosine_similarity
vector_inner_product vector_l2_distance vector_norm vector_normalize weekday weekofyear
width_bucket xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
xpath_short xpath_string xxhash64 year zeroifnull zip_with
"""
SPARK_FUNCTIONS: Final = frozenset(_SCALAR.split())
_ONE_RECORD = "a rule sees one record at a time, so that order and exactly once hold"
# Spark's functions that rules cannot use, by the reason.
_REFUSED: dict[str, str] = {
    f"combines several records: {_ONE_RECORD}": """
any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if
count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last
last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
regr_sxx regr_sxy regr_syy schema_of_variant_agg session_window skewness some std stddev
stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg
try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
var_pop var_samp variance vector_avg vector_sum window window_time
""",
    f"looks at other records: {_ONE_RECORD}": """
counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
""",
    "makes several rows of one record: one record gives at most one, so that offsets can be "
    "translated": """
collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
python_worker_logs range sql_keywords stack variant_explode variant_explode_outer
""",
    "may give another result when a record is read again: then the same records would not give "
    "the same copy": """
curdate current_catalog current_database current_date current_path current_schema current_time
current_timestamp current_timezone current_user input_file_block_length input_file_block_start
input_file_name localtime localtimestamp monotonically_increasing_id now rand randn random randstr
session_user shuffle spark_partition_id uniform user uuid version
""",
    "runs Java code on the runner": """
java_method reflect try_reflect
""",
    "needs a key, which would be a secret in the flow's settings: use hmac_value or json_hmac, "
    "which take a reference to a secret": """
aes_decrypt aes_encrypt hmac try_aes_decrypt
""",
    "needs a Spark module that runners do not have: use functions such as avro_json and "
    "protobuf_json": """
from_avro from_protobuf schema_of_avro to_avro to_protobuf
""",
}
REFUSED_FUNCTIONS: Final = {
    name: reason for reason, names in _REFUSED.items() for name in names.split()
}
