"""Functions of rules that Spark does not have: Java classes, registered in a session.

Janino, which Spark uses for its own generated code, compiles them into a jar at the first use on
this machine, so no Java compiler is needed. They run inside Spark's expressions, where Python would
be another worker, and an error would end the task.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from mirrors.domain.transforms.functions import HELPERS, REFUSED_FUNCTIONS
from spark_runner.sql.columns import SCHEMAS, SECRET

# Sets Spark's metrics of the task. Rules cannot use it: the checker knows no such function.
TASK_FIGURES: Final = "task_figures"
_SOURCES: Final = Path(__file__).parent / "java"
_PACKAGE: Final = "understudy.sql"
_BUILDER: Final = f"{_PACKAGE}.RecordFunctionBuilder"


def register(session: SparkSession, directory: Path, cache: Path) -> None:
    """Register the functions in this session.

    The compiled classes are in the cache, or below the directory if that cannot be written to.
    """
    context = session.sparkContext
    jvm: Any = context._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    # The parent does not have these classes from another jar.
    jar = _compiled(jvm, loader.getParent(), directory, cache)
    context._jsc.addJar(str(jar))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    gateway: Any = context._gateway
    builder = jvm.java.lang.Class.forName(_BUILDER, True, loader).getConstructors()[0]
    registry = session._jsparkSession.sessionState().functionRegistry()
    registered = [
        (helper.name, helper.arguments, helper.result, helper.reads_schemas)
        for helper in HELPERS.values()
    ]
    registered.append((TASK_FIGURES, ("text",), "string", False))
    for name, kinds, result, reads_schemas in registered:
        first, *rest = name.split("_")
        method = first + "".join(word.capitalize() for word in rest)
        schemas = SCHEMAS if reads_schemas else ""
        values = (name, method, " ".join(kinds), result, SECRET, schemas)
        given = gateway.new_array(jvm.java.lang.Object, len(values))
        for at, value in enumerate(values):
            given[at] = value
        registry.createOrReplaceTempFunction(name, builder.newInstance(given), "java_udf")


def remove_refused(session: SparkSession) -> None:
    """Let this session know no function that rules must not use, whatever their check missed."""
    registry = session._jsparkSession.sessionState().functionRegistry()
    jvm: Any = session.sparkContext._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    place = (jvm.scala.Option.apply("builtin"), jvm.scala.Option.apply("system"))
    for name in REFUSED_FUNCTIONS:
        registry.dropFunction(identifier(name, *place))


def tried(value: Column) -> Column:
    """The value, or null where its evaluation fails."""
    context = SparkContext._active_spark_context
    jvm: Any = context._jvm if context is not None else None
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    found = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(value._jc))
    return Column(utils.column(found))


def _compiled(jvm: Any, loader: Any, directory: Path, cache: Path) -> Path:
    """The jar of the classes. Raises OSError if none can be written."""
    sources = sorted(_SOURCES.glob("*.java"))
    texts = b"".join(path.read_bytes() for path in sources) + pyspark.__version__.encode()
    name = f"functions-{hashlib.sha256(texts).hexdigest()[:12]}.jar"
    cached, own = cache / name, directory / name
    for jar in (cached, own):
        # The end of a file that was not written completely is missing.
        if zipfile.is_zipfile(jar):
            return jar
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        _compile(jvm, loader, sources, cached)
    except OSError:
        _compile(jvm, loader, sources, own)
        return own
    return cached


def _compile(jvm: Any, loader: Any, sources: Sequence[Path], jar: Path) -> None:
    compiler = jvm.org.codehaus.janino.CompilerFactory().newCompiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    files = jvm.java.lang.reflect.Array.newInstance(
        jvm.java.lang.Class.forName("java.io.File"), len(sources)
    )
    for at, path in enumerate(sources):
        files[at] = jvm.java.io.File(str(path))
    # Other processes may compile the same.
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, unfinished = Path(folder, "classes"), Path(folder, jar.name)
        classes.mkdir()
        compiler.setDestinationDirectory(jvm.java.io.File(str(classes)), False)
        compiler.compile(files)
        with zipfile.ZipFile(unfinished, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, str(path.relative_to(classes)))
        unfinished.replace(jar)
