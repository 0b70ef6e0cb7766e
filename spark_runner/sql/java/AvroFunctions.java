package understudy.sql;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.Decoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.Encoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Functions on Avro records as serializers of a schema registry write them: a zero byte, the id of
 * the schema in four bytes, the record.
 *
 * A changed record has the same schema and id. Fields that no path names are copied value by value;
 * nothing is converted to objects, so floats, the order of maps and unions stay as they are.
 */
public class AvroFunctions {
    private static final JsonFactory JSON =
        JsonFactory.builder().enable(JsonWriteFeature.WRITE_NAN_AS_STRINGS).build();

    public static byte[] avroDrop(UTF8String folder, byte[] value, UTF8String paths) {
        return edit(folder, value, paths, new RecordFunctions.Edit(RecordFunctions.DROP, null, null));
    }

    public static byte[] avroMask(
            UTF8String folder, byte[] value, UTF8String replacement, UTF8String paths) {
        String text = replacement == null ? null : replacement.toString();
        return edit(folder, value, paths, new RecordFunctions.Edit(RecordFunctions.MASK, text, null));
    }

    public static byte[] avroHmac(
            UTF8String folder, byte[] value, byte[] secret, UTF8String paths) {
        return edit(
            folder, value, paths, new RecordFunctions.Edit(RecordFunctions.HMAC, null, secret));
    }

    /** The record as JSON; null for null. */
    public static UTF8String avroJson(UTF8String folder, byte[] value) {
        if (value == null) {
            return null;
        }
        Schema schema = RegistrySchemas.avro(folder, value);
        try {
            BinaryDecoder in = decoderOf(value);
            String found = jsonOf(schema, in);
            checkEnd(in);
            return UTF8String.fromString(found);
        } catch (IllegalArgumentException error) {
            throw error;
        } catch (Exception error) {
            throw unreadable(value, error);
        }
    }

    /** A field as text, or as JSON if it is no scalar; null if it is null or missing. */
    public static UTF8String avroGet(UTF8String folder, byte[] value, UTF8String path) {
        if (value == null) {
            return null;
        }
        Schema schema = RegistrySchemas.avro(folder, value);
        try {
            String found = find(schema, decoderOf(value), RecordFunctions.names(path.toString()), 0);
            return found == null ? null : UTF8String.fromString(found);
        } catch (IllegalArgumentException error) {
            throw error;
        } catch (Exception error) {
            throw unreadable(value, error);
        }
    }

    private static byte[] edit(
            UTF8String folder, byte[] value, UTF8String paths, RecordFunctions.Edit edit) {
        if (value == null) {
            return null;
        }
        Schema schema = RegistrySchemas.avro(folder, value);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(value.length);
        bytes.write(value, 0, RegistrySchemas.PREFIX);
        try {
            BinaryDecoder in = decoderOf(value);
            BinaryEncoder out = EncoderFactory.get().directBinaryEncoder(bytes, null);
            copy(schema, in, out, RecordFunctions.fieldsOf(paths), edit);
            checkEnd(in);
            out.flush();
        } catch (IllegalArgumentException error) {
            throw error;
        } catch (Exception error) {
            throw unreadable(value, error);
        }
        return bytes.toByteArray();
    }

    private static BinaryDecoder decoderOf(byte[] value) {
        int at = RegistrySchemas.PREFIX;
        return DecoderFactory.get().binaryDecoder(value, at, value.length - at, null);
    }

    private static void checkEnd(BinaryDecoder in) throws IOException {
        if (!in.isEnd()) {
            throw new IOException("bytes follow the record");
        }
    }

    private static IllegalArgumentException unreadable(byte[] value, Exception error) {
        String reason = error.getMessage() == null ? "it ends too early" : error.getMessage();
        return new IllegalArgumentException(
            "the value is no Avro record of schema id " + RegistrySchemas.idOf(value) + ": " + reason,
            error);
    }

    // -- copy and change

    /** Copies a value; `fields` are those below it that paths name, or null. */
    private static void copy(
            Schema schema, Decoder in, Encoder out, RecordFunctions.Field fields,
            RecordFunctions.Edit edit) throws IOException {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.RECORD) {
            for (Iterator all = schema.getFields().iterator(); all.hasNext();) {
                Schema.Field field = (Schema.Field) all.next();
                RecordFunctions.Field named = fields == null ? null : fields.at(field.name());
                if (named == null || !named.isNamed) {
                    copy(field.schema(), in, out, named, edit);
                } else if (edit.how == RecordFunctions.DROP) {
                    skip(field.schema(), in);
                    writeDefault(field, out);
                } else {
                    replace(field.schema(), field.name(), in, out, edit);
                }
            }
        } else if (type == Schema.Type.UNION) {
            int branch = in.readIndex();
            out.writeIndex(branch);
            copy(branchOf(schema, branch), in, out, fields, edit);
        } else if (type == Schema.Type.ARRAY) {
            out.writeArrayStart();
            for (long count = in.readArrayStart(); count > 0; count = in.arrayNext()) {
                out.setItemCount(count);
                for (long at = 0; at < count; at++) {
                    out.startItem();
                    copy(schema.getElementType(), in, out, fields, edit);
                }
            }
            out.writeArrayEnd();
        } else if (type == Schema.Type.MAP) {
            copyMap(schema, in, out, fields, edit);
        } else {
            copyScalar(schema, type, in, out);
        }
    }

    private static void copyMap(
            Schema schema, Decoder in, Encoder out, RecordFunctions.Field fields,
            RecordFunctions.Edit edit) throws IOException {
        Schema values = schema.getValueType();
        // Blocks of one entry, where an entry may be left out.
        boolean isDropping = fields != null && edit.how == RecordFunctions.DROP;
        out.writeMapStart();
        for (long count = in.readMapStart(); count > 0; count = in.mapNext()) {
            if (!isDropping) {
                out.setItemCount(count);
            }
            for (long at = 0; at < count; at++) {
                String key = textOf(in);
                RecordFunctions.Field named = fields == null ? null : fields.at(key);
                boolean isNamed = named != null && named.isNamed;
                if (isNamed && isDropping) {
                    skip(values, in);
                    continue;
                }
                if (isDropping) {
                    out.setItemCount(1);
                }
                out.startItem();
                out.writeString(key);
                if (isNamed) {
                    replace(values, key, in, out, edit);
                } else {
                    copy(values, in, out, named, edit);
                }
            }
        }
        out.writeMapEnd();
    }

    private static void copyScalar(Schema schema, Schema.Type type, Decoder in, Encoder out)
            throws IOException {
        if (type == Schema.Type.STRING || type == Schema.Type.BYTES) {
            // Both are written in the same way.
            out.writeBytes(bytesOf(in));
        } else if (type == Schema.Type.FIXED) {
            byte[] bytes = new byte[schema.getFixedSize()];
            in.readFixed(bytes, 0, bytes.length);
            out.writeFixed(bytes, 0, bytes.length);
        } else if (type == Schema.Type.INT) {
            out.writeInt(in.readInt());
        } else if (type == Schema.Type.LONG) {
            out.writeLong(in.readLong());
        } else if (type == Schema.Type.FLOAT) {
            out.writeFloat(in.readFloat());
        } else if (type == Schema.Type.DOUBLE) {
            out.writeDouble(in.readDouble());
        } else if (type == Schema.Type.BOOLEAN) {
            out.writeBoolean(in.readBoolean());
        } else if (type == Schema.Type.ENUM) {
            out.writeEnum(in.readEnum());
        }
    }

    private static void writeDefault(Schema.Field field, Encoder out) throws IOException {
        Schema schema = field.schema();
        if (field.hasDefaultValue()) {
            Object found = GenericData.get().getDefaultValue(field);
            new GenericDatumWriter(schema).write(found, out);
            return;
        }
        int none = schema.getType() == Schema.Type.UNION ? nullBranch(schema) : -1;
        if (none < 0) {
            throw new IllegalArgumentException(
                "the field '" + field.name() + "' cannot be dropped: its schema has no default for "
                    + "it and does not allow null; mask it instead");
        }
        out.writeIndex(none);
        out.writeNull();
    }

    private static int nullBranch(Schema union) {
        List types = union.getTypes();
        for (int at = 0; at < types.size(); at++) {
            if (((Schema) types.get(at)).getType() == Schema.Type.NULL) {
                return at;
            }
        }
        return -1;
    }

    private static Schema branchOf(Schema union, int branch) throws IOException {
        List types = union.getTypes();
        if (branch < 0 || branch >= types.size()) {
            throw new IOException("a union has no branch " + branch);
        }
        return (Schema) types.get(branch);
    }

    /** A text or bytes. A length from a damaged record would allocate up to 2 GB. */
    private static byte[] bytesOf(Decoder in) throws IOException {
        long length = in.readLong();
        int left = ((BinaryDecoder) in).inputStream().available();
        if (length < 0 || length > left) {
            throw new IOException("a text of " + length + " bytes, where " + left + " follow");
        }
        byte[] found = new byte[(int) length];
        in.readFixed(found, 0, found.length);
        return found;
    }

    private static String textOf(Decoder in) throws IOException {
        return new String(bytesOf(in), StandardCharsets.UTF_8);
    }

    private static void skip(Schema schema, Decoder in) throws IOException {
        GenericDatumReader.skip(schema, in);
    }

    // -- mask and HMAC

    private static void replace(
            Schema schema, String name, Decoder in, Encoder out, RecordFunctions.Edit edit)
            throws IOException {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.UNION) {
            int branch = in.readIndex();
            out.writeIndex(branch);
            replace(branchOf(schema, branch), name, in, out, edit);
        } else if (type == Schema.Type.NULL) {
            return;
        } else if (edit.how == RecordFunctions.HMAC) {
            hash(type, name, in, out, edit.secret);
        } else if (type == Schema.Type.RECORD && edit.replacement == null) {
            for (Iterator all = schema.getFields().iterator(); all.hasNext();) {
                Schema.Field field = (Schema.Field) all.next();
                replace(field.schema(), field.name(), in, out, edit);
            }
        } else {
            skip(schema, in);
            if (edit.replacement == null) {
                writeBlank(schema, type, out);
            } else {
                writeText(schema, type, name, edit.replacement, out);
            }
        }
    }

    private static void hash(Schema.Type type, String name, Decoder in, Encoder out, byte[] secret)
            throws IOException {
        if (type == Schema.Type.STRING) {
            out.writeString(RecordFunctions.hmac(secret, bytesOf(in)));
        } else if (type == Schema.Type.BYTES) {
            String hash = RecordFunctions.hmac(secret, bytesOf(in));
            out.writeBytes(hash.getBytes(StandardCharsets.US_ASCII));
        } else {
            throw unfit(name, type, "cannot hold an HMAC; mask it instead");
        }
    }

    private static void writeBlank(Schema schema, Schema.Type type, Encoder out)
            throws IOException {
        if (type == Schema.Type.STRING) {
            out.writeString("");
        } else if (type == Schema.Type.BYTES) {
            out.writeBytes(new byte[0]);
        } else if (type == Schema.Type.FIXED) {
            out.writeFixed(new byte[schema.getFixedSize()]);
        } else if (type == Schema.Type.INT) {
            out.writeInt(0);
        } else if (type == Schema.Type.LONG) {
            out.writeLong(0);
        } else if (type == Schema.Type.FLOAT) {
            out.writeFloat(0);
        } else if (type == Schema.Type.DOUBLE) {
            out.writeDouble(0);
        } else if (type == Schema.Type.BOOLEAN) {
            out.writeBoolean(false);
        } else if (type == Schema.Type.ENUM) {
            String usual = schema.getEnumDefault();
            out.writeEnum(usual == null ? 0 : schema.getEnumOrdinal(usual));
        } else if (type == Schema.Type.ARRAY) {
            out.writeArrayStart();
            out.writeArrayEnd();
        } else if (type == Schema.Type.MAP) {
            out.writeMapStart();
            out.writeMapEnd();
        }
    }

    private static void writeText(
            Schema schema, Schema.Type type, String name, String text, Encoder out)
            throws IOException {
        try {
            if (type == Schema.Type.STRING) {
                out.writeString(text);
            } else if (type == Schema.Type.BYTES) {
                out.writeBytes(text.getBytes(StandardCharsets.UTF_8));
            } else if (type == Schema.Type.INT) {
                out.writeInt(Integer.parseInt(text));
            } else if (type == Schema.Type.LONG) {
                out.writeLong(Long.parseLong(text));
            } else if (type == Schema.Type.FLOAT) {
                out.writeFloat(Float.parseFloat(text));
            } else if (type == Schema.Type.DOUBLE) {
                out.writeDouble(Double.parseDouble(text));
            } else if (type == Schema.Type.ENUM && schema.hasEnumSymbol(text)) {
                out.writeEnum(schema.getEnumOrdinal(text));
            } else {
                throw unfit(name, type, "cannot hold '" + text + "'; mask it with null");
            }
        } catch (NumberFormatException error) {
            throw unfit(name, type, "cannot hold '" + text + "'");
        }
    }

    private static IllegalArgumentException unfit(String name, Schema.Type type, String why) {
        return new IllegalArgumentException(
            "the field '" + name + "' is of the type " + type.getName() + ", which " + why);
    }

    // -- read

    private static String find(Schema schema, Decoder in, List names, int depth)
            throws IOException {
        if (depth == names.size()) {
            return textOf(schema, in);
        }
        Schema.Type type = schema.getType();
        if (type == Schema.Type.UNION) {
            return find(branchOf(schema, in.readIndex()), in, names, depth);
        }
        if (type == Schema.Type.RECORD) {
            for (Iterator all = schema.getFields().iterator(); all.hasNext();) {
                Schema.Field field = (Schema.Field) all.next();
                if (field.name().equals(names.get(depth))) {
                    return find(field.schema(), in, names, depth + 1);
                }
                skip(field.schema(), in);
            }
        } else if (type == Schema.Type.MAP) {
            for (long count = in.readMapStart(); count > 0; count = in.mapNext()) {
                for (long at = 0; at < count; at++) {
                    if (textOf(in).equals(names.get(depth))) {
                        return find(schema.getValueType(), in, names, depth + 1);
                    }
                    skip(schema.getValueType(), in);
                }
            }
        } else if (type == Schema.Type.ARRAY) {
            throw new IllegalArgumentException(
                "'" + names.get(depth) + "' is below a list; use get_json_object(avro_json(value), "
                    + "'$…')");
        }
        return null;
    }

    private static String textOf(Schema schema, Decoder in) throws IOException {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.UNION) {
            return textOf(branchOf(schema, in.readIndex()), in);
        }
        if (type == Schema.Type.NULL) {
            return null;
        }
        if (type == Schema.Type.STRING) {
            return textOf(in);
        }
        if (type == Schema.Type.ENUM) {
            return symbolOf(schema, in);
        }
        return jsonOf(schema, in);
    }

    private static String symbolOf(Schema schema, Decoder in) throws IOException {
        int at = in.readEnum();
        List symbols = schema.getEnumSymbols();
        if (at < 0 || at >= symbols.size()) {
            throw new IOException("an enum has no symbol " + at);
        }
        return (String) symbols.get(at);
    }

    private static String jsonOf(Schema schema, Decoder in) throws IOException {
        StringWriter text = new StringWriter();
        JsonGenerator out = JSON.createGenerator(text);
        write(schema, in, out);
        out.close();
        return text.toString();
    }

    /** Bytes as Base64, enums as their symbol, unions as the value alone. */
    private static void write(Schema schema, Decoder in, JsonGenerator out) throws IOException {
        Schema.Type type = schema.getType();
        if (type == Schema.Type.RECORD) {
            out.writeStartObject();
            for (Iterator all = schema.getFields().iterator(); all.hasNext();) {
                Schema.Field field = (Schema.Field) all.next();
                out.writeFieldName(field.name());
                write(field.schema(), in, out);
            }
            out.writeEndObject();
        } else if (type == Schema.Type.UNION) {
            write(branchOf(schema, in.readIndex()), in, out);
        } else if (type == Schema.Type.ARRAY) {
            out.writeStartArray();
            for (long count = in.readArrayStart(); count > 0; count = in.arrayNext()) {
                for (long at = 0; at < count; at++) {
                    write(schema.getElementType(), in, out);
                }
            }
            out.writeEndArray();
        } else if (type == Schema.Type.MAP) {
            out.writeStartObject();
            for (long count = in.readMapStart(); count > 0; count = in.mapNext()) {
                for (long at = 0; at < count; at++) {
                    out.writeFieldName(textOf(in));
                    write(schema.getValueType(), in, out);
                }
            }
            out.writeEndObject();
        } else {
            writeScalar(schema, type, in, out);
        }
    }

    private static void writeScalar(Schema schema, Schema.Type type, Decoder in, JsonGenerator out)
            throws IOException {
        if (type == Schema.Type.STRING) {
            out.writeString(textOf(in));
        } else if (type == Schema.Type.BYTES) {
            out.writeBinary(bytesOf(in));
        } else if (type == Schema.Type.FIXED) {
            byte[] bytes = new byte[schema.getFixedSize()];
            in.readFixed(bytes, 0, bytes.length);
            out.writeBinary(bytes);
        } else if (type == Schema.Type.INT) {
            out.writeNumber(in.readInt());
        } else if (type == Schema.Type.LONG) {
            out.writeNumber(in.readLong());
        } else if (type == Schema.Type.FLOAT) {
            out.writeNumber(in.readFloat());
        } else if (type == Schema.Type.DOUBLE) {
            out.writeNumber(in.readDouble());
        } else if (type == Schema.Type.BOOLEAN) {
            out.writeBoolean(in.readBoolean());
        } else if (type == Schema.Type.ENUM) {
            out.writeString(symbolOf(schema, in));
        } else {
            out.writeNull();
        }
    }
}
