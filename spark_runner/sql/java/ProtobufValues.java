package understudy.sql;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Values of fields as text and JSON, as a parser of Protobuf reads them: the last one of a field
 * counts, also of a oneof; messages of one field are merged, which joining their bytes does.
 */
public class ProtobufValues {
    private static final JsonFactory JSON =
        JsonFactory.builder().enable(JsonWriteFeature.WRITE_NAN_AS_STRINGS).build();

    /** The wire type of single values of a field; messages may be groups instead. */
    static int wireType(ProtobufSchema.Field field) {
        String kind = field.kind;
        if (kind.equals("string") || kind.equals("bytes") || kind.equals("message")) {
            return ProtobufReader.LENGTH;
        }
        if (kind.endsWith("fixed64") || kind.equals("double")) {
            return ProtobufReader.EIGHT_BYTES;
        }
        if (kind.endsWith("fixed32") || kind.equals("float")) {
            return ProtobufReader.FOUR_BYTES;
        }
        return ProtobufReader.VARINT;
    }

    /** Whether the content is a packed list. Raises if it does not fit the type of the field. */
    static boolean isPacked(ProtobufSchema.Field field, int type) throws IOException {
        int expected = wireType(field);
        if (type == expected || (type == ProtobufReader.GROUP && field.isMessage())) {
            return false;
        }
        boolean isList = field.label.equals("many");
        if (type == ProtobufReader.LENGTH && isList && expected != ProtobufReader.LENGTH) {
            return true;
        }
        throw new IOException(
            "the field '" + field.name + "' has the wire type " + type + ", which is none of "
                + field.kind);
    }

    /** Moves past one value of a packed list. */
    static void skip(ProtobufSchema.Field field, ProtobufReader in) throws IOException {
        numberOf(field, in);
    }

    // -- find

    /** The field as text, or as JSON if it is no scalar; null if it is not set. */
    static String find(ProtobufSchema.Message message, byte[] bytes, int from, List names, int depth)
            throws IOException {
        ProtobufSchema.Field field = message.named((String) names.get(depth));
        if (field == null) {
            return null;
        }
        List found = read(message, bytes, from, bytes.length)[field.at];
        boolean isLast = depth == names.size() - 1;
        if (isLast) {
            return textOf(field, found, bytes);
        }
        if (field.isMap()) {
            byte[] entry = (byte[]) entries(field, found, bytes).get(names.get(depth + 1));
            // An entry has a name in the path, and its value none.
            return entry == null ? null : findInEntry(field.message, entry, names, depth + 1);
        }
        if (field.isRepeated()) {
            throw new IllegalArgumentException(
                "'" + names.get(depth + 1) + "' is below a list; use "
                    + "get_json_object(protobuf_json(value), '$…')");
        }
        field.checkKnown();
        if (!field.isMessage() || found.isEmpty()) {
            return null;
        }
        return find(field.message, merged(found, bytes), 0, names, depth + 1);
    }

    private static String findInEntry(
            ProtobufSchema.Message entry, byte[] bytes, List names, int depth) throws IOException {
        ProtobufSchema.Field value = entry.named("value");
        List found = read(entry, bytes, 0, bytes.length)[value.at];
        if (depth == names.size() - 1) {
            return textOf(value, found, bytes);
        }
        value.checkKnown();
        if (!value.isMessage()) {
            return null;
        }
        return find(value.message, merged(found, bytes), 0, names, depth + 1);
    }

    private static String textOf(ProtobufSchema.Field field, List found, byte[] bytes)
            throws IOException {
        field.checkKnown();
        if (field.isRepeated() || field.isMessage()) {
            if (found.isEmpty() && !field.isRepeated()) {
                return null;
            }
            StringWriter text = new StringWriter();
            JsonGenerator out = JSON.createGenerator(text);
            write(field, found, bytes, out, 0);
            out.close();
            return text.toString();
        }
        Object value = scalarOf(field, found, bytes);
        if (value instanceof byte[]) {
            return Base64.getEncoder().encodeToString((byte[]) value);
        }
        return value == null ? null : value.toString();
    }

    // -- read

    /** For each field its contents, as wire type, first byte and end. */
    private static List[] read(ProtobufSchema.Message message, byte[] bytes, int from, int end)
            throws IOException {
        List[] found = new List[message.fields.size()];
        for (int at = 0; at < found.length; at++) {
            found[at] = new ArrayList();
        }
        ProtobufReader in = new ProtobufReader(bytes, from, end);
        while (in.next()) {
            ProtobufSchema.Field field = message.numbered(in.number);
            if (field == null) {
                continue;
            }
            if (field.choice >= 0) {
                for (int at = 0; at < found.length; at++) {
                    ProtobufSchema.Field other = (ProtobufSchema.Field) message.fields.get(at);
                    if (at != field.at && other.choice == field.choice) {
                        found[at].clear();
                    }
                }
            }
            found[field.at].add(new int[] {in.type, in.from, in.to});
        }
        return found;
    }

    private static byte[] merged(List found, byte[] bytes) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (int at = 0; at < found.size(); at++) {
            int[] place = (int[]) found.get(at);
            out.write(bytes, place[1], place[2] - place[1]);
        }
        return out.toByteArray();
    }

    /** The entries of a map by the text of their keys; of equal keys the last one. */
    private static Map entries(ProtobufSchema.Field field, List found, byte[] bytes)
            throws IOException {
        Map entries = new LinkedHashMap();
        for (int at = 0; at < found.size(); at++) {
            int[] place = (int[]) found.get(at);
            isPacked(field, place[0]);
            byte[] entry = merged(found.subList(at, at + 1), bytes);
            entries.put(keyOf(field, entry, 0, entry.length), entry);
        }
        return entries;
    }

    /** The key of a map's entry as text. */
    static String keyOf(ProtobufSchema.Field map, byte[] bytes, int from, int end)
            throws IOException {
        ProtobufSchema.Field key = map.message.named("key");
        List found = read(map.message, bytes, from, end)[key.at];
        return String.valueOf(scalarOf(key, found, bytes));
    }

    /** The last value, or the default if its absence means that; null if it is not set. */
    private static Object scalarOf(ProtobufSchema.Field field, List found, byte[] bytes)
            throws IOException {
        if (found.isEmpty()) {
            return field.label.equals("implicit") ? defaultOf(field) : null;
        }
        int[] place = (int[]) found.get(found.size() - 1);
        isPacked(field, place[0]);
        return scalarOf(field, new ProtobufReader(bytes, place[1], place[2]), place[2] - place[1]);
    }

    private static Object defaultOf(ProtobufSchema.Field field) throws IOException {
        int size = 0;
        int type = wireType(field);
        if (type != ProtobufReader.LENGTH) {
            size = type == ProtobufReader.VARINT ? 1 : type == ProtobufReader.EIGHT_BYTES ? 8 : 4;
        }
        return scalarOf(field, new ProtobufReader(new byte[size], 0, size), size);
    }

    private static Object scalarOf(ProtobufSchema.Field field, ProtobufReader in, int size)
            throws IOException {
        String kind = field.kind;
        if (kind.equals("string") || kind.equals("bytes")) {
            byte[] found = new byte[size];
            System.arraycopy(in.bytes, in.at, found, 0, size);
            if (kind.equals("bytes")) {
                return found;
            }
            return new String(found, StandardCharsets.UTF_8);
        }
        long number = numberOf(field, in);
        if (kind.equals("bool")) {
            return Boolean.valueOf(number != 0);
        }
        if (kind.equals("double")) {
            return Double.valueOf(Double.longBitsToDouble(number));
        }
        if (kind.equals("float")) {
            return Float.valueOf(Float.intBitsToFloat((int) number));
        }
        if (kind.equals("int32") || kind.equals("sfixed32") || field.isEnum()) {
            Integer whole = Integer.valueOf((int) number);
            boolean isNamed = field.isEnum() && field.symbolOf.containsKey(whole);
            return isNamed ? field.symbolOf.get(whole) : (Object) whole;
        }
        if (kind.equals("sint32")) {
            return Integer.valueOf((int) ProtobufReader.signed(number & 0xffffffffL));
        }
        if (kind.equals("uint32") || kind.equals("fixed32")) {
            return Long.valueOf(number & 0xffffffffL);
        }
        if (kind.equals("uint64") || kind.equals("fixed64")) {
            return new BigInteger(Long.toUnsignedString(number));
        }
        return Long.valueOf(kind.equals("sint64") ? ProtobufReader.signed(number) : number);
    }

    private static long numberOf(ProtobufSchema.Field field, ProtobufReader in) throws IOException {
        int type = wireType(field);
        if (type == ProtobufReader.VARINT) {
            return in.varint();
        }
        return in.fixed(type == ProtobufReader.EIGHT_BYTES ? 8 : 4);
    }

    // -- JSON

    static String jsonOf(ProtobufSchema.Message message, byte[] bytes, int from)
            throws IOException {
        StringWriter text = new StringWriter();
        JsonGenerator out = JSON.createGenerator(text);
        writeMessage(message, bytes, from, out, 0);
        out.close();
        return text.toString();
    }

    /** Fields by their names in the schema, without those that are not set. */
    private static void writeMessage(
            ProtobufSchema.Message message, byte[] bytes, int from, JsonGenerator out, int depth)
            throws IOException {
        if (depth > ProtobufReader.MOST_DEPTH) {
            throw new IOException("messages are nested too deep");
        }
        List[] found = read(message, bytes, from, bytes.length);
        out.writeStartObject();
        for (int at = 0; at < found.length; at++) {
            ProtobufSchema.Field field = (ProtobufSchema.Field) message.fields.get(at);
            boolean isUnset = found[at].isEmpty() && !field.isRepeated();
            if (!isUnset || field.label.equals("implicit")) {
                out.writeFieldName(field.name);
                write(field, found[at], bytes, out, depth);
            }
        }
        out.writeEndObject();
    }

    private static void write(
            ProtobufSchema.Field field, List found, byte[] bytes, JsonGenerator out, int depth)
            throws IOException {
        field.checkKnown();
        if (field.isMap()) {
            out.writeStartObject();
            ProtobufSchema.Field value = field.message.named("value");
            Map entries = entries(field, found, bytes);
            for (Iterator all = entries.keySet().iterator(); all.hasNext();) {
                String key = (String) all.next();
                byte[] entry = (byte[]) entries.get(key);
                out.writeFieldName(key);
                List values = read(field.message, entry, 0, entry.length)[value.at];
                writeValue(value, values, entry, out, depth);
            }
            out.writeEndObject();
        } else if (field.isRepeated()) {
            out.writeStartArray();
            for (int at = 0; at < found.size(); at++) {
                int[] place = (int[]) found.get(at);
                if (isPacked(field, place[0])) {
                    ProtobufReader in = new ProtobufReader(bytes, place[1], place[2]);
                    while (in.at < place[2]) {
                        writeScalar(scalarOf(field, in, 0), out);
                    }
                } else {
                    writeValue(field, found.subList(at, at + 1), bytes, out, depth);
                }
            }
            out.writeEndArray();
        } else {
            writeValue(field, found, bytes, out, depth);
        }
    }

    private static void writeValue(
            ProtobufSchema.Field field, List found, byte[] bytes, JsonGenerator out, int depth)
            throws IOException {
        field.checkKnown();
        if (!field.isMessage()) {
            writeScalar(scalarOf(field, found, bytes), out);
            return;
        }
        for (int at = 0; at < found.size(); at++) {
            isPacked(field, ((int[]) found.get(at))[0]);
        }
        writeMessage(field.message, merged(found, bytes), 0, out, depth + 1);
    }

    private static void writeScalar(Object value, JsonGenerator out) throws IOException {
        if (value instanceof byte[]) {
            out.writeBinary((byte[]) value);
        } else if (value instanceof Boolean) {
            out.writeBoolean(((Boolean) value).booleanValue());
        } else if (value instanceof Double) {
            out.writeNumber(((Double) value).doubleValue());
        } else if (value instanceof Float) {
            out.writeNumber(((Float) value).floatValue());
        } else if (value instanceof BigInteger) {
            out.writeNumber((BigInteger) value);
        } else if (value instanceof Number) {
            out.writeNumber(((Number) value).longValue());
        } else if (value == null) {
            out.writeNull();
        } else {
            out.writeString(value.toString());
        }
    }
}
