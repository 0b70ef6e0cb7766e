package understudy.sql;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The messages of a Protobuf schema, as `mirrors.domain.schemas.protobuf` describes them.
 *
 * A type that the registry does not give is known by its name only.
 */
public class ProtobufSchema {
    // Numbers of nested messages before a record. More would be a damaged record.
    private static final int MOST_DEPTH = 100;

    /** A message; that of a map entry has the fields `key` and `value`. */
    static class Message {
        final String name;
        final List fields = new ArrayList();
        final List nested = new ArrayList();
        int unnamed;
        final Map byName = new HashMap();
        final Map byNumber = new HashMap();

        Message(String name) {
            this.name = name;
        }

        Field named(String name) {
            return (Field) this.byName.get(name);
        }

        Field numbered(int number) {
            return (Field) this.byNumber.get(Integer.valueOf(number));
        }
    }

    /** `kind` is a scalar type, or message, enum or unknown; `at` is its place in the message. */
    static class Field {
        final String owner;
        final String name;
        final int number;
        final int at;
        final String kind;
        final String typeName;
        final String label;
        final int choice;
        Message message;
        Map symbols;
        final Map symbolOf = new HashMap();

        Field(String owner, int at, JsonNode from) {
            this.owner = owner;
            this.at = at;
            this.name = child(from, "name").asText();
            this.number = child(from, "number").asInt();
            this.label = child(from, "label").asText();
            this.choice = child(from, "choice").asInt();
            String type = child(from, "type").asText();
            int space = type.indexOf(' ');
            this.kind = space < 0 ? type : type.substring(0, space);
            this.typeName = type.substring(space + 1);
        }

        boolean isMap() {
            return this.label.equals("map");
        }

        boolean isRepeated() {
            return this.label.equals("many") || isMap();
        }

        boolean isMessage() {
            return this.kind.equals("message");
        }

        boolean isEnum() {
            return this.kind.equals("enum");
        }

        /** Raises what says that nothing in this field can be read. */
        void checkKnown() {
            if (this.kind.equals("unknown")) {
                throw new IllegalArgumentException(
                    "the type " + this.typeName + " of the field '" + this.name + "' of "
                        + this.owner + " is in no file that the registry gives with the schema: "
                        + "register its file, and refer to it");
            }
        }
    }

    final Map messages = new HashMap();

    ProtobufSchema(JsonNode found) {
        JsonNode described = child(found, "messages");
        for (Iterator all = described.fieldNames(); all.hasNext();) {
            String name = (String) all.next();
            this.messages.put(name, new Message(name));
        }
        for (Iterator all = this.messages.values().iterator(); all.hasNext();) {
            Message message = (Message) all.next();
            fill(message, child(described, message.name), child(found, "enums"));
        }
    }

    private void fill(Message message, JsonNode from, JsonNode enums) {
        JsonNode fields = child(from, "fields");
        for (int at = 0; at < fields.size(); at++) {
            Field field = new Field(message.name, at, (JsonNode) fields.get(at));
            field.message = field.isMessage() ? (Message) this.messages.get(field.typeName) : null;
            if (field.isEnum()) {
                readSymbols(field, child(enums, field.typeName));
            }
            message.fields.add(field);
            message.byName.put(field.name, field);
            message.byNumber.put(Integer.valueOf(field.number), field);
        }
        JsonNode nested = child(from, "nested");
        for (int at = 0; at < nested.size(); at++) {
            message.nested.add(this.messages.get(((JsonNode) nested.get(at)).asText()));
        }
        message.unnamed = child(from, "unnamed").asInt();
    }

    private static JsonNode child(JsonNode from, String name) {
        return (JsonNode) from.get(name);
    }

    private static void readSymbols(Field field, JsonNode symbols) {
        field.symbols = new LinkedHashMap();
        for (Iterator all = symbols.fieldNames(); all.hasNext();) {
            String symbol = (String) all.next();
            Integer number = Integer.valueOf(child(symbols, symbol).asInt());
            field.symbols.put(symbol, number);
            if (!field.symbolOf.containsKey(number)) {
                field.symbolOf.put(number, symbol);
            }
        }
    }

    /**
     * The message of a record, by the numbers before it, which the reader has read past then.
     *
     * Serializers differ in whether they count map entries and groups among nested messages, and in
     * their order. Where that matters, the record is refused: to guess could change other fields.
     */
    Message messageOf(ProtobufReader in) throws IOException {
        int[] path = pathOf(in);
        List found = new ArrayList();
        found.add(this.messages.get(""));
        StringBuilder shown = new StringBuilder();
        for (int depth = 0; depth < path.length; depth++) {
            shown.append(depth == 0 ? "" : ".").append(path[depth]);
            List below = new ArrayList();
            for (int at = 0; at < found.size(); at++) {
                addNested((Message) found.get(at), path[depth], below);
            }
            found = below;
        }
        if (found.isEmpty()) {
            throw new IOException("its schema has no message of the number " + shown);
        }
        Message first = (Message) found.get(0);
        if (found.size() > 1) {
            throw new IOException(
                "its message has the number " + shown + ", which is " + first.name + " or "
                    + ((Message) found.get(1)).name + ", as serializers count maps and groups "
                    + "differently; declare the message outside of others");
        }
        return first;
    }

    private static void addNested(Message message, int number, List found) {
        int first = Math.max(0, number - message.unnamed);
        int last = Math.min(number, message.nested.size() - 1);
        for (int at = first; at <= last; at++) {
            if (!found.contains(message.nested.get(at))) {
                found.add(message.nested.get(at));
            }
        }
    }

    /** A count and as many numbers, in zigzag encoding; a single zero stands for the first message. */
    private static int[] pathOf(ProtobufReader in) throws IOException {
        long count = ProtobufReader.signed(in.varint());
        if (count == 0) {
            return new int[1];
        }
        if (count < 0 || count > MOST_DEPTH) {
            throw new IOException("the numbers of its message are missing after the id");
        }
        int[] path = new int[(int) count];
        for (int at = 0; at < path.length; at++) {
            long number = ProtobufReader.signed(in.varint());
            if (number < 0 || number > Integer.MAX_VALUE) {
                throw new IOException("the numbers of its message are missing after the id");
            }
            path[at] = (int) number;
        }
        return path;
    }
}
