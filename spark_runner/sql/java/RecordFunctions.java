package understudy.sql;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The functions of rules on records that Spark does not have. What cannot be done is an exception,
 * which TryEval turns into "failed".
 *
 * Values are UTF-8. Fields that no path names keep their order and the text of their numbers.
 */
public class RecordFunctions {
    static final int DROP = 0;
    static final int KEEP = 1;
    static final int MASK = 2;
    static final int HMAC = 3;
    private static final char[] HEX = "0123456789abcdef".toCharArray();
    private static final JsonFactory JSON = new JsonFactory();
    private static final Map PATHS = new ConcurrentHashMap();

    // Long records have long texts.
    static {
        JSON.setStreamReadConstraints(
            StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build());
    }

    /** A field that paths name: itself, or fields below it. */
    static class Field {
        boolean isNamed;
        final Map below = new HashMap();

        Field at(String name) {
            return (Field) this.below.get(name);
        }
    }

    /** What replaces the value of a field. */
    static class Edit {
        final int how;
        final String replacement;
        final byte[] secret;

        Edit(int how, String replacement, byte[] secret) {
            this.how = how;
            this.replacement = replacement;
            this.secret = secret;
        }
    }

    public static byte[] jsonDrop(byte[] value, UTF8String paths) {
        return edit(value, DROP, paths, null, null);
    }

    public static byte[] jsonKeep(byte[] value, UTF8String paths) {
        return edit(value, KEEP, paths, null, null);
    }

    public static byte[] jsonMask(byte[] value, UTF8String replacement, UTF8String paths) {
        return edit(value, MASK, paths, replacement == null ? null : replacement.toString(), null);
    }

    public static byte[] jsonHmac(byte[] value, byte[] secret, UTF8String paths) {
        return edit(value, HMAC, paths, null, secret);
    }

    public static byte[] hmacValue(byte[] value, byte[] secret) {
        return value == null ? null : hmac(secret, value).getBytes(StandardCharsets.US_ASCII);
    }

    /** The value of the last header of this name; null if there is none. */
    public static byte[] header(ArrayData headers, UTF8String name) {
        if (headers == null || name == null) {
            return null;
        }
        for (int at = headers.numElements() - 1; at >= 0; at--) {
            InternalRow row = headers.getStruct(at, 2);
            if (!row.isNullAt(0) && row.getUTF8String(0).equals(name)) {
                return row.isNullAt(1) ? null : row.getBinary(1);
            }
        }
        return null;
    }

    /** The headers with this one at the end, and without others of its name. */
    public static ArrayData setHeader(ArrayData headers, UTF8String name, byte[] value) {
        List found = new ArrayList();
        int count = headers == null ? 0 : headers.numElements();
        for (int at = 0; at < count; at++) {
            InternalRow row = headers.getStruct(at, 2);
            UTF8String other = row.isNullAt(0) ? null : row.getUTF8String(0);
            if (other == null || !other.equals(name)) {
                found.add(rowOf(
                    other == null ? null : other.copy(), row.isNullAt(1) ? null : row.getBinary(1)));
            }
        }
        found.add(rowOf(name, value));
        return new GenericArrayData(found.toArray());
    }

    private static InternalRow rowOf(UTF8String name, byte[] value) {
        return new GenericInternalRow(new Object[] {name, value});
    }

    static String hmac(byte[] secret, byte[] data) {
        if (secret == null || secret.length == 0) {
            throw new IllegalStateException("the secret of hmac is missing or empty");
        }
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            byte[] found = mac.doFinal(data);
            char[] text = new char[found.length * 2];
            for (int at = 0; at < found.length; at++) {
                text[2 * at] = HEX[(found[at] >> 4) & 15];
                text[2 * at + 1] = HEX[found[at] & 15];
            }
            return new String(text);
        } catch (java.security.GeneralSecurityException error) {
            throw new IllegalStateException("HMAC-SHA-256 is not available", error);
        }
    }

    // -- JSON

    private static byte[] edit(
            byte[] value, int how, UTF8String paths, String replacement, byte[] secret) {
        if (value == null) {
            return null;
        }
        Field root = fieldsOf(paths);
        ByteArrayOutputStream out = new ByteArrayOutputStream(value.length);
        try {
            int start = startOfJson(value);
            out.write(value, 0, start);
            JsonParser parser = JSON.createParser(value, start, value.length - start);
            JsonGenerator generator = JSON.createGenerator(out);
            if (parser.nextToken() == null) {
                throw new IllegalArgumentException("the value is empty, and no JSON");
            }
            copy(parser, generator, root, how, replacement, secret);
            if (parser.nextToken() != null) {
                throw new IllegalArgumentException("something follows the JSON value");
            }
            generator.close();
        } catch (IOException error) {
            throw new IllegalArgumentException("the value is no JSON: " + error.getMessage(), error);
        }
        return out.toByteArray();
    }

    /** JSON never begins with a zero byte: the serializer of a registry wrote it, and an id. */
    private static int startOfJson(byte[] value) {
        return value.length > RegistrySchemas.PREFIX && value[0] == 0 ? RegistrySchemas.PREFIX : 0;
    }

    /** A field as text, or as JSON if it is no scalar; null if it is null or missing. */
    public static UTF8String jsonGet(byte[] value, UTF8String path) {
        if (value == null) {
            return null;
        }
        List names = names(path.toString());
        int start = startOfJson(value);
        try {
            JsonParser parser = JSON.createParser(value, start, value.length - start);
            JsonToken token = parser.nextToken();
            if (token == null) {
                throw new IllegalArgumentException("the value is empty, and no JSON");
            }
            for (int depth = 0; depth < names.size(); depth++) {
                if (!enter(parser, (String) names.get(depth))) {
                    return null;
                }
            }
            boolean isNull = parser.currentToken() == JsonToken.VALUE_NULL;
            return isNull ? null : UTF8String.fromString(textOf(parser));
        } catch (IOException error) {
            throw new IllegalArgumentException("the value is no JSON: " + error.getMessage(), error);
        }
    }

    /** Moves to the value of a field of the present object; false if there is none. */
    private static boolean enter(JsonParser parser, String name) throws IOException {
        if (parser.currentToken() == JsonToken.START_ARRAY) {
            throw new IllegalArgumentException(
                "'" + name + "' is below a list; use get_json_object instead");
        }
        if (parser.currentToken() != JsonToken.START_OBJECT) {
            return false;
        }
        while (parser.nextToken() != JsonToken.END_OBJECT) {
            boolean isFound = parser.currentName().equals(name);
            parser.nextToken();
            if (isFound) {
                return true;
            }
            parser.skipChildren();
        }
        return false;
    }

    /** Copies the present value; `fields` are those below it that paths name, or null. */
    private static void copy(
            JsonParser parser, JsonGenerator out, Field fields, int how, String replacement,
            byte[] secret) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.START_ARRAY) {
            out.writeStartArray();
            while (parser.nextToken() != JsonToken.END_ARRAY) {
                copy(parser, out, fields, how, replacement, secret);
            }
            out.writeEndArray();
        } else if (token == JsonToken.START_OBJECT) {
            out.writeStartObject();
            while (parser.nextToken() != JsonToken.END_OBJECT) {
                String name = parser.currentName();
                Field field = fields == null ? null : fields.at(name);
                parser.nextToken();
                if (how == KEEP && fields != null && field == null) {
                    parser.skipChildren();
                } else if (field == null || (how == KEEP && field.isNamed)) {
                    out.writeFieldName(name);
                    copy(parser, out, null, how, replacement, secret);
                } else if (!field.isNamed) {
                    out.writeFieldName(name);
                    copy(parser, out, field, how, replacement, secret);
                } else if (how == DROP) {
                    parser.skipChildren();
                } else {
                    out.writeFieldName(name);
                    replace(parser, out, how, replacement, secret);
                }
            }
            out.writeEndObject();
        } else {
            write(parser, out);
        }
    }

    private static void replace(
            JsonParser parser, JsonGenerator out, int how, String replacement, byte[] secret)
            throws IOException {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.VALUE_NULL) {
            out.writeNull();
        } else if (how == HMAC) {
            out.writeString(hmac(secret, textOf(parser).getBytes(StandardCharsets.UTF_8)));
        } else if (replacement == null) {
            blank(parser, out, token);
        } else {
            parser.skipChildren();
            if (token.isNumeric()) {
                out.writeNumber(number(replacement));
            } else {
                out.writeString(replacement);
            }
        }
    }

    private static void blank(JsonParser parser, JsonGenerator out, JsonToken token)
            throws IOException {
        parser.skipChildren();
        if (token.isNumeric()) {
            out.writeNumber(0);
        } else if (token.isBoolean()) {
            out.writeBoolean(false);
        } else if (token == JsonToken.START_ARRAY) {
            out.writeStartArray();
            out.writeEndArray();
        } else if (token == JsonToken.START_OBJECT) {
            out.writeStartObject();
            out.writeEndObject();
        } else {
            out.writeString("");
        }
    }

    private static String number(String text) {
        try {
            JsonParser parser = JSON.createParser(text);
            JsonToken token = parser.nextToken();
            if (token != null && token.isNumeric()) {
                String found = parser.getText();
                if (parser.nextToken() == null) {
                    return found;
                }
            }
        } catch (IOException error) {
            // Reported below.
        }
        throw new IllegalArgumentException(
            "the field is a number, and the replacement '" + text + "' is none");
    }

    private static String textOf(JsonParser parser) throws IOException {
        if (!parser.currentToken().isStructStart()) {
            return parser.getText();
        }
        StringWriter text = new StringWriter();
        JsonGenerator out = JSON.createGenerator(text);
        copy(parser, out, null, DROP, null, null);
        out.close();
        return text.toString();
    }

    private static void write(JsonParser parser, JsonGenerator out) throws IOException {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.VALUE_STRING) {
            out.writeString(parser.getText());
        } else if (token.isNumeric()) {
            out.writeNumber(parser.getText());
        } else if (token.isBoolean()) {
            out.writeBoolean(token == JsonToken.VALUE_TRUE);
        } else {
            out.writeNull();
        }
    }

    // -- paths

    static Field fieldsOf(UTF8String paths) {
        String text = paths.toString();
        Field found = (Field) PATHS.get(text);
        if (found == null) {
            found = new Field();
            String[] lines = text.split("\n", -1);
            for (int line = 0; line < lines.length; line++) {
                Field field = found;
                List names = names(lines[line]);
                for (int at = 0; at < names.size(); at++) {
                    Field below = field.at((String) names.get(at));
                    if (below == null) {
                        below = new Field();
                        field.below.put(names.get(at), below);
                    }
                    field = below;
                }
                field.isNamed = true;
            }
            PATHS.put(text, found);
        }
        return found;
    }

    /** `a.b` is field b of field a; a name with a dot stands between backquotes. */
    static List names(String path) {
        List found = new ArrayList();
        int at = 0;
        while (true) {
            int end;
            if (at < path.length() && path.charAt(at) == '`') {
                end = path.indexOf('`', at + 1);
                found.add(path.substring(at + 1, end));
                end++;
            } else {
                end = path.indexOf('.', at);
                end = end < 0 ? path.length() : end;
                found.add(path.substring(at, end));
            }
            if (end >= path.length()) {
                return found;
            }
            at = end + 1;
        }
    }
}
