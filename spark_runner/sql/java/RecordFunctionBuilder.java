package understudy.sql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Turns a call in an expression into one of RecordFunctions. The result has the type of the value.
 *
 * `kinds` has one word for each argument: value, text, replacement, secret, path, paths, headers or
 * binary. A secret is a column: the plan never contains it. `schemas` is the name of the column with
 * the folder of schemas, which functions on Avro and Protobuf get before their arguments; empty for
 * others.
 */
public class RecordFunctionBuilder extends scala.runtime.AbstractFunction1 {
    private static final DataType BYTES = BinaryType$.MODULE$;
    private static final DataType TEXT = StringType$.MODULE$;

    private final String name;
    private final String method;
    private final String[] kinds;
    private final String result;
    private final String secretPrefix;
    private final String schemas;

    public RecordFunctionBuilder(
            String name, String method, String kinds, String result, String secretPrefix,
            String schemas) {
        this.name = name;
        this.method = method;
        this.kinds = kinds.split(" ");
        this.result = result;
        this.secretPrefix = secretPrefix;
        this.schemas = schemas;
    }

    public Object apply(Object given) {
        List arguments = CollectionConverters.asJava((scala.collection.Seq) given);
        boolean isOpen = this.kinds[this.kinds.length - 1].equals("paths");
        if (arguments.size() < this.kinds.length
                || (!isOpen && arguments.size() > this.kinds.length)) {
            throw new IllegalArgumentException(
                this.name + " takes " + this.kinds.length + (isOpen ? " or more" : "")
                    + " arguments, not " + arguments.size());
        }
        List used = new ArrayList();
        boolean isOfSchema = !this.schemas.isEmpty();
        DataType result = this.result.equals("string") ? TEXT : BYTES;
        boolean isText = false;
        if (isOfSchema) {
            used.add(UnresolvedAttribute.quoted(this.schemas));
        }
        for (int at = 0; at < this.kinds.length; at++) {
            String kind = this.kinds[at];
            Expression argument = (Expression) arguments.get(at);
            if (kind.equals("value")) {
                isText = !isOfSchema && argument.dataType() instanceof StringType;
                if (!isText && !argument.dataType().equals(BYTES)) {
                    throw new IllegalArgumentException(
                        this.name + " takes binary" + (isOfSchema ? "" : " or string") + ", not "
                            + argument.dataType().simpleString());
                }
                used.add(isText ? cast(argument, BYTES) : argument);
            } else if (kind.equals("headers")) {
                if (this.method.equals("setHeader")) {
                    result = headersType();
                }
                used.add(cast(argument, headersType()));
            } else if (kind.equals("secret")) {
                used.add(UnresolvedAttribute.quoted(this.secretPrefix + textOf(argument)));
            } else if (kind.equals("paths")) {
                StringBuilder paths = new StringBuilder(textOf(argument));
                for (int next = at + 1; next < arguments.size(); next++) {
                    paths.append('\n').append(textOf((Expression) arguments.get(next)));
                }
                used.add(new Literal(UTF8String.fromString(paths.toString()), TEXT));
            } else {
                used.add(cast(argument, kind.equals("binary") ? BYTES : TEXT));
            }
        }
        Class holder = RecordFunctions.class;
        if (this.method.equals("taskFigures")) {
            holder = TaskFigures.class;
        } else if (isOfSchema) {
            holder = RegistrySchemas.class;
            if (this.method.startsWith("avro")) {
                holder = AvroFunctions.class;
            } else if (this.method.startsWith("protobuf")) {
                holder = ProtobufFunctions.class;
            }
        }
        Seq sequence = CollectionConverters.asScala(used).toSeq();
        Expression call = new StaticInvoke(
            holder, result, this.method, sequence, (Seq) Nil$.MODULE$, false, true,
            true, scala.Option.apply(null));
        return isText && result.equals(BYTES) ? cast(call, TEXT) : call;
    }

    private String textOf(Expression argument) {
        if (!argument.foldable()) {
            throw new IllegalArgumentException(this.name + " takes texts in quotes");
        }
        return String.valueOf(argument.eval(null));
    }

    private static DataType headersType() {
        return new ArrayType(
            new StructType().add("key", TEXT, true).add("value", BYTES, true), true);
    }

    private static Expression cast(Expression argument, DataType type) {
        if (argument.dataType().equals(type)) {
            return argument;
        }
        return Cast$.MODULE$.apply(argument, type, true);
    }
}
