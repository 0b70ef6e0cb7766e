"""Calls of functions of modules in expressions, found by Spark's own parser.

Spark evaluates the arguments of a request first. When the functions have been called with them, it
evaluates the expressions around the results. Flows without user code import nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from mirrors.domain.transforms.modules import ModuleFunction, functions_of
from mirrors.domain.transforms.rules import TransformRule
from mirrors.function_modules import ModuleRefused, checked_module
from spark_runner.sql.columns import ARGUMENTS, KEEP, KIND, RULE
from spark_runner.sql.functions import tried
from spark_runner.sql.user_functions import FunctionCall

_CALL: Final = "UnresolvedFunction"


class ModuleCalls:
    """The calls of all rules, in a session. Raises what Spark's parser raises.

    `refused`: rules whose functions are not known here. The first worker stops their partitions.
    """

    def __init__(
        self, session: SparkSession, rules: Sequence[TransformRule], refused: Iterable[int] = ()
    ) -> None:
        self._java: Any = session._jsparkSession
        self._jvm: Any = session.sparkContext._jvm
        self._parser = self._java.sessionState().sqlParser()
        self._rules = rules
        self._refused = frozenset(refused)
        self.calls: list[FunctionCall] = []
        # Columns with the arguments, null in rows that are not of the kind ARGUMENTS.
        self.arguments: list[Column] = []
        self._functions = self._known_functions()
        # Expressions with results in place of calls, by the index of the rule and the field.
        self.replaced: dict[tuple[int, str], Column] = {}
        for index, rule in enumerate(rules):
            for field, text in rule.expressions.items() if rule.modules else ():
                before = len(self.calls)
                tree = self._replace(self._parser.parseExpression(text), index, field)
                if len(self.calls) > before or index in self._refused:
                    self.replaced[index, field] = self._column(tree)

    def _known_functions(self) -> dict[tuple[int, str], dict[str, ModuleFunction]]:
        return {
            (index, module.name): functions_of(checked_module(module))
            for index, rule in enumerate(self._rules)
            for module in (rule.modules if index not in self._refused else ())
        }

    def collected(self, rows: DataFrame) -> pa.Table:
        """The arguments of a local relation. Spark needs no slot for that."""
        names = [name for call in self.calls for name in call.arguments]
        found = rows.select(*names)
        schema = to_arrow_schema(found.schema, timezone="UTC")
        return pa.Table.from_pylist([_plain(row) for row in found.collect()], schema)

    def _replace(self, tree: Any, index: int, field: str) -> Any:
        """The expression with the result's column in place of each call."""
        children = list(self._listed(tree.children()))
        if tree.getClass().getSimpleName() == _CALL:
            names = list(self._listed(tree.nameParts()))
            if len(names) == 2 and (index, names[0]) in self._functions:
                return self._add(index, field, names, children)
            if len(names) == 2 and index in self._refused:
                return self._parser.parseExpression("raise_error('refused')")
        found = [self._replace(child, index, field) for child in children]
        if all(one is child for one, child in zip(found, children, strict=True)):
            return tree
        return tree.withNewChildren(self._jvm.PythonUtils.toSeq(found))

    def _add(self, index: int, field: str, names: Sequence[str], arguments: Sequence[Any]) -> Any:
        module, function = names
        sha256 = dict(self._rules[index].modules)[module]
        known = self._functions[index, module].get(function)
        if known is None or not known.takes(len(arguments)):
            raise ModuleRefused(f"{module}.py does not define {module}.{function} as it is called.")
        number = len(self.calls)
        columns = tuple(f"_argument_{number}_{at}" for at in range(len(arguments)))
        column = f"_result_{number}"
        call = FunctionCall(index, field, module, sha256, function, known.result, columns, column)
        self.calls.append(call)
        is_seen = f.col(KIND).eqNullSafe(ARGUMENTS) & f.col(RULE).eqNullSafe(index)
        if field != "where" and (index, "where") not in self.replaced:
            is_seen &= f.col(f"{KEEP}.v").eqNullSafe(True)
        self.arguments += [
            f.when(is_seen, self._tried(argument)).alias(name)
            for name, argument in zip(columns, arguments, strict=True)
        ]
        failed = f"coalesce(`{column}`.error, 'an argument of {call.name} failed')"
        return self._parser.parseExpression(
            f"CASE WHEN `{column}` IS NOT NULL AND `{column}`.error IS NULL THEN `{column}`.v "
            f"ELSE raise_error({failed}) END"
        )

    def _tried(self, tree: Any) -> Column:
        """A struct with the value of the expression, or null if it failed."""
        return tried(f.struct(self._column(tree).alias("v")))

    def _column(self, tree: Any) -> Column:
        return Column(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(tree))

    def _listed(self, seq: Any) -> Any:
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(seq)


def _plain(value: Any) -> Any:
    """A value that Spark returns, as Arrow reads it."""
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return [(_plain(name), _plain(part)) for name, part in value.items()]
    if isinstance(value, bytearray):
        return bytes(value)
    # Spark returns the local time without a zone.
    return value.astimezone(UTC) if isinstance(value, datetime) else value
