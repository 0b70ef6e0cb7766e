package understudy.sql;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.file.Files;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Schemas that the Python worker fetched from a registry: files `ID.json` in a folder.
 *
 * No Java code connects to a registry, so addresses, TLS, secrets and egress rules have one
 * implementation. A file that is not there means that the registry has no such id.
 */
public class RegistrySchemas {
    /** A zero byte and the id in four bytes. */
    public static final int PREFIX = 5;
    // Folders come and go with slices.
    private static final int MOST = 2000;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map PARSED = new ConcurrentHashMap();

    public static int idOf(byte[] value) {
        return (value[1] & 255) << 24 | (value[2] & 255) << 16 | (value[3] & 255) << 8
            | (value[4] & 255);
    }

    public static Schema avro(UTF8String folder, byte[] value) {
        return (Schema) schema(folder, value, "AVRO");
    }

    public static ProtobufSchema protobuf(UTF8String folder, byte[] value) {
        return (ProtobufSchema) schema(folder, value, "PROTOBUF");
    }

    private static Object schema(UTF8String folder, byte[] value, String kind) {
        checkPrefix(value);
        String path = folder + "/" + idOf(value) + ".json";
        Object found = PARSED.get(path);
        if (found == null) {
            found = parse(new File(path), idOf(value));
            remember(path, found);
        }
        boolean isAvro = found instanceof Schema;
        if (found instanceof String || isAvro != kind.equals("AVRO")) {
            String other = found instanceof String ? (String) found : isAvro ? "AVRO" : "PROTOBUF";
            throw new IllegalArgumentException(
                "schema id " + idOf(value) + " is of the type " + other + ", not " + kind);
        }
        return found;
    }

    /** The value with the id of the same schema at the target; null for null. */
    public static byte[] targetSchema(UTF8String folder, byte[] value) {
        if (value == null) {
            return null;
        }
        checkPrefix(value);
        int id = idOf(value);
        String path = folder + "/" + id + ".target";
        Integer there = (Integer) PARSED.get(path);
        if (there == null) {
            there = readId(folder, id, new File(path));
            remember(path, there);
        }
        byte[] found = (byte[]) value.clone();
        int number = there.intValue();
        for (int at = PREFIX - 1; at > 0; at--) {
            found[at] = (byte) number;
            number >>= 8;
        }
        return found;
    }

    private static Integer readId(UTF8String folder, int id, File file) {
        if (file.exists()) {
            try {
                return Integer.valueOf(Files.readString(file.toPath()));
            } catch (Exception error) {
                throw new IllegalArgumentException(
                    "the id of schema " + id + " at the target cannot be read", error);
            }
        }
        boolean isKnown = new File(folder + "/" + id + ".json").exists();
        throw new IllegalArgumentException(
            isKnown
                ? "the schema registry of the target does not have the schema of id " + id
                    + " under a subject of the source: register it there"
                : "the schema registry has no schema id " + id);
    }

    private static void checkPrefix(byte[] value) {
        if (value.length < PREFIX || value[0] != 0) {
            throw new IllegalArgumentException(
                "the value does not begin with a zero byte and the id of a schema");
        }
    }

    private static void remember(String path, Object found) {
        if (PARSED.size() >= MOST) {
            PARSED.clear();
        }
        PARSED.put(path, found);
    }

    /** The schema; for a type that no function reads, the name of the type. */
    private static Object parse(File file, int id) {
        if (!file.exists()) {
            throw new IllegalArgumentException("the schema registry has no schema id " + id);
        }
        try {
            JsonNode read = JSON.readTree(file);
            String kind = ((JsonNode) read.get("kind")).asText();
            if (kind.equals("PROTOBUF")) {
                if (read.has("error")) {
                    throw new IllegalArgumentException(
                        "schema id " + id + " cannot be parsed: it "
                            + ((JsonNode) read.get("error")).asText());
                }
                return new ProtobufSchema(read);
            }
            if (!kind.equals("AVRO")) {
                return kind;
            }
            Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION);
            parser.setValidateDefaults(false);
            Schema found = null;
            // The last one uses names of those before it.
            JsonNode texts = read.get("texts");
            for (int at = 0; at < texts.size(); at++) {
                found = parser.parse(((JsonNode) texts.get(at)).asText());
            }
            return found;
        } catch (IllegalArgumentException error) {
            throw error;
        } catch (Exception error) {
            throw new IllegalArgumentException(
                "schema id " + id + " cannot be parsed: " + error.getMessage(), error);
        }
    }
}
