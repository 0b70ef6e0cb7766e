package understudy.sql;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Functions on Protobuf records as serializers of a schema registry write them: a zero byte, the id
 * of the schema in four bytes, the number of the message in it, the message.
 *
 * A changed record has the same schema and id. Bytes of fields that no path names are copied, also
 * those that the schema does not know, in their order.
 */
public class ProtobufFunctions {
    public static byte[] protobufDrop(UTF8String folder, byte[] value, UTF8String paths) {
        return edit(folder, value, paths, new RecordFunctions.Edit(RecordFunctions.DROP, null, null));
    }

    public static byte[] protobufMask(
            UTF8String folder, byte[] value, UTF8String replacement, UTF8String paths) {
        String text = replacement == null ? null : replacement.toString();
        return edit(folder, value, paths, new RecordFunctions.Edit(RecordFunctions.MASK, text, null));
    }

    public static byte[] protobufHmac(
            UTF8String folder, byte[] value, byte[] secret, UTF8String paths) {
        return edit(
            folder, value, paths, new RecordFunctions.Edit(RecordFunctions.HMAC, null, secret));
    }

    /** The record as JSON; null for null. */
    public static UTF8String protobufJson(UTF8String folder, byte[] value) {
        return value == null ? null : read(folder, value, null);
    }

    /** A field as text, or as JSON if it is no scalar; null if it is not set. */
    public static UTF8String protobufGet(UTF8String folder, byte[] value, UTF8String path) {
        return value == null ? null : read(folder, value, path);
    }

    private static UTF8String read(UTF8String folder, byte[] value, UTF8String path) {
        ProtobufSchema schema = RegistrySchemas.protobuf(folder, value);
        try {
            ProtobufReader in = readerOf(value);
            ProtobufSchema.Message message = schema.messageOf(in);
            String found;
            if (path == null) {
                found = ProtobufValues.jsonOf(message, value, in.at);
            } else {
                found = ProtobufValues.find(
                    message, value, in.at, RecordFunctions.names(path.toString()), 0);
            }
            return found == null ? null : UTF8String.fromString(found);
        } catch (IOException error) {
            throw unreadable(value, error);
        }
    }

    private static byte[] edit(
            UTF8String folder, byte[] value, UTF8String paths, RecordFunctions.Edit edit) {
        if (value == null) {
            return null;
        }
        ProtobufSchema schema = RegistrySchemas.protobuf(folder, value);
        ByteArrayOutputStream out = new ByteArrayOutputStream(value.length);
        try {
            ProtobufReader in = readerOf(value);
            ProtobufSchema.Message message = schema.messageOf(in);
            out.write(value, 0, in.at);
            copy(message, in, RecordFunctions.fieldsOf(paths), edit, out, 0);
        } catch (IOException error) {
            throw unreadable(value, error);
        }
        return out.toByteArray();
    }

    private static ProtobufReader readerOf(byte[] value) {
        return new ProtobufReader(value, RegistrySchemas.PREFIX, value.length);
    }

    private static IllegalArgumentException unreadable(byte[] value, IOException error) {
        return new IllegalArgumentException(
            "the value is no Protobuf record of schema id " + RegistrySchemas.idOf(value) + ": "
                + error.getMessage(), error);
    }

    // -- copy and change

    /** Copies the fields of a message; returns whether one was changed. */
    private static boolean copy(
            ProtobufSchema.Message message, ProtobufReader in, RecordFunctions.Field fields,
            RecordFunctions.Edit edit, ByteArrayOutputStream out, int depth) throws IOException {
        if (depth > ProtobufReader.MOST_DEPTH) {
            throw new IOException("messages are nested too deep");
        }
        boolean isChanged = false;
        while (in.next()) {
            ProtobufSchema.Field field = message.numbered(in.number);
            RecordFunctions.Field named = field == null ? null : fields.at(field.name);
            if (named == null) {
                out.write(in.bytes, in.start, in.at - in.start);
            } else if (!named.isNamed) {
                isChanged |= copyBelow(field, in, named, edit, out, depth);
            } else {
                isChanged = true;
                if (edit.how != RecordFunctions.DROP) {
                    replace(field, in, edit, out);
                } else if (field.label.equals("required")) {
                    throw new IllegalArgumentException(
                        "the field '" + field.name + "' cannot be dropped: its schema requires it; "
                            + "mask it instead");
                }
            }
        }
        return isChanged;
    }

    /** Copies a field that has named ones below it. */
    private static boolean copyBelow(
            ProtobufSchema.Field field, ProtobufReader in, RecordFunctions.Field named,
            RecordFunctions.Edit edit, ByteArrayOutputStream out, int depth) throws IOException {
        field.checkKnown();
        RecordFunctions.Field below = named;
        if (field.isMap()) {
            below = inEntry(field, in, named);
            if (below != null && below.at("value").isNamed && edit.how == RecordFunctions.DROP) {
                return true;
            }
        }
        if (field.isMessage() && below != null) {
            ProtobufValues.isPacked(field, in.type);
            ByteArrayOutputStream content = new ByteArrayOutputStream(in.to - in.from);
            ProtobufReader inner = new ProtobufReader(in.bytes, in.from, in.to);
            if (copy(field.message, inner, below, edit, content, depth + 1)) {
                writeContent(in, content.toByteArray(), out);
                return true;
            }
        }
        out.write(in.bytes, in.start, in.at - in.start);
        return false;
    }

    /** What paths name in the entry of a map, whose value is the field `value`; null for nothing. */
    private static RecordFunctions.Field inEntry(
            ProtobufSchema.Field map, ProtobufReader in, RecordFunctions.Field named)
            throws IOException {
        ProtobufValues.isPacked(map, in.type);
        RecordFunctions.Field value =
            named.at(ProtobufValues.keyOf(map, in.bytes, in.from, in.to));
        if (value == null) {
            return null;
        }
        RecordFunctions.Field entry = new RecordFunctions.Field();
        entry.below.put("value", value);
        return entry;
    }

    private static void replace(
            ProtobufSchema.Field field, ProtobufReader in, RecordFunctions.Edit edit,
            ByteArrayOutputStream out) throws IOException {
        field.checkKnown();
        boolean isPacked = ProtobufValues.isPacked(field, in.type);
        boolean isBytes = field.kind.equals("string") || field.kind.equals("bytes");
        if (edit.how == RecordFunctions.HMAC) {
            if (!isBytes) {
                throw unfit(field, "cannot hold an HMAC; mask it instead");
            }
            byte[] content = new byte[in.to - in.from];
            System.arraycopy(in.bytes, in.from, content, 0, content.length);
            String hash = RecordFunctions.hmac(edit.secret, content);
            writeContent(in, hash.getBytes(StandardCharsets.US_ASCII), out);
        } else if (edit.replacement == null) {
            blank(field, in, out);
        } else if (field.isMessage()) {
            throw unfit(field, "cannot hold '" + edit.replacement + "'; mask it with null");
        } else if (isPacked) {
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            ProtobufReader old = new ProtobufReader(in.bytes, in.from, in.to);
            while (old.at < in.to) {
                ProtobufValues.skip(field, old);
                writeText(field, edit.replacement, content);
            }
            writeContent(in, content.toByteArray(), out);
        } else {
            out.write(in.bytes, in.start, in.tagEnd - in.start);
            writeText(field, edit.replacement, out);
        }
    }

    /** Writes nothing where absence means an empty list or the default. */
    private static void blank(
            ProtobufSchema.Field field, ProtobufReader in, ByteArrayOutputStream out)
            throws IOException {
        if (field.isRepeated() || field.label.equals("implicit")) {
            return;
        }
        if (field.isMessage()) {
            for (int at = 0; at < field.message.fields.size(); at++) {
                ProtobufSchema.Field inner = (ProtobufSchema.Field) field.message.fields.get(at);
                if (inner.label.equals("required")) {
                    throw new IllegalArgumentException(
                        "the field '" + field.name + "' cannot be masked: the schema requires '"
                            + inner.name + "' in it; mask the fields below it");
                }
            }
            writeContent(in, new byte[0], out);
            return;
        }
        out.write(in.bytes, in.start, in.tagEnd - in.start);
        if (field.isEnum()) {
            Object first = field.symbols.values().iterator().next();
            ProtobufReader.writeVarint(out, ((Integer) first).intValue());
        } else {
            // A length, a varint or a number of this size: zero in each encoding.
            int type = ProtobufValues.wireType(field);
            int size = type == ProtobufReader.EIGHT_BYTES ? 8 : 4;
            boolean isFixed =
                type == ProtobufReader.EIGHT_BYTES || type == ProtobufReader.FOUR_BYTES;
            ProtobufReader.writeFixed(out, 0, isFixed ? size : 1);
        }
    }

    /** Writes the tag of the present field with another content: a length or a group around it. */
    private static void writeContent(ProtobufReader in, byte[] content, ByteArrayOutputStream out) {
        out.write(in.bytes, in.start, in.tagEnd - in.start);
        if (in.type == ProtobufReader.GROUP) {
            out.write(content, 0, content.length);
            out.write(in.bytes, in.to, in.at - in.to);
        } else {
            ProtobufReader.writeBytes(out, content);
        }
    }

    private static void writeText(
            ProtobufSchema.Field field, String text, ByteArrayOutputStream out) {
        String kind = field.kind;
        try {
            if (kind.equals("string") || kind.equals("bytes")) {
                ProtobufReader.writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
            } else if (field.isEnum()) {
                Integer number = (Integer) field.symbols.get(text);
                if (number == null) {
                    throw unfit(field, "has no symbol '" + text + "'");
                }
                ProtobufReader.writeVarint(out, number.intValue());
            } else if (kind.equals("bool")) {
                if (!text.equals("true") && !text.equals("false")) {
                    throw unfit(field, "cannot hold '" + text + "'; write true or false");
                }
                ProtobufReader.writeVarint(out, text.equals("true") ? 1 : 0);
            } else if (kind.equals("float")) {
                ProtobufReader.writeFixed(out, Float.floatToRawIntBits(Float.parseFloat(text)), 4);
            } else if (kind.equals("double")) {
                long bits = Double.doubleToRawLongBits(Double.parseDouble(text));
                ProtobufReader.writeFixed(out, bits, 8);
            } else {
                writeWhole(kind, numberOf(kind, text), out);
            }
        } catch (NumberFormatException error) {
            throw unfit(field, "cannot hold '" + text + "'");
        }
    }

    private static long numberOf(String kind, String text) {
        boolean isUnsigned = kind.startsWith("uint") || kind.startsWith("fixed");
        if (kind.endsWith("32")) {
            if (isUnsigned) {
                return Integer.parseUnsignedInt(text) & 0xffffffffL;
            }
            return Integer.parseInt(text);
        }
        return isUnsigned ? Long.parseUnsignedLong(text) : Long.parseLong(text);
    }

    private static void writeWhole(String kind, long number, ByteArrayOutputStream out) {
        if (kind.startsWith("sint")) {
            // Zigzag encoding.
            ProtobufReader.writeVarint(out, number << 1 ^ number >> 63);
        } else if (kind.indexOf("fixed") >= 0) {
            ProtobufReader.writeFixed(out, number, kind.endsWith("64") ? 8 : 4);
        } else {
            ProtobufReader.writeVarint(out, number);
        }
    }

    private static IllegalArgumentException unfit(ProtobufSchema.Field field, String why) {
        String type = field.isMap() ? "map" : field.isEnum() ? field.typeName : field.kind;
        return new IllegalArgumentException(
            "the field '" + field.name + "' is of the type " + type + ", which " + why);
    }
}
