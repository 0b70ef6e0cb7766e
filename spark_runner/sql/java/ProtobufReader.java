package understudy.sql;

import java.io.ByteArrayOutputStream;
import java.io.IOException;

/** Reads the fields of a message from bytes, one after the other, with their places. */
public class ProtobufReader {
    static final int VARINT = 0;
    static final int EIGHT_BYTES = 1;
    static final int LENGTH = 2;
    static final int GROUP = 3;
    static final int GROUP_END = 4;
    static final int FOUR_BYTES = 5;
    static final int MOST_DEPTH = 100;

    final byte[] bytes;
    int at;
    private final int end;
    // Of the present field: its number and wire type, where it begins, and where its tag ends.
    int number;
    int type;
    int start;
    int tagEnd;
    // Its content, without a length and without the tag at the end of a group.
    int from;
    int to;

    ProtobufReader(byte[] bytes, int from, int to) {
        this.bytes = bytes;
        this.at = from;
        this.end = to;
    }

    /** Moves to the next field; false at the end. */
    boolean next() throws IOException {
        if (this.at == this.end) {
            return false;
        }
        this.start = this.at;
        tag();
        if (this.type == GROUP_END) {
            throw new IOException("a group ends that did not begin");
        }
        skip(this.number, this.type, 0);
        return true;
    }

    private void tag() throws IOException {
        long tag = varint();
        this.number = (int) (tag >>> 3);
        this.type = (int) (tag & 7);
        this.tagEnd = this.at;
        if (tag >>> 32 != 0 || this.number == 0) {
            throw new IOException("a field has no valid number");
        }
    }

    /** Moves past a content; `from` and `to` are its place. */
    private void skip(int number, int type, int depth) throws IOException {
        int begin = this.at;
        int stop;
        if (type == VARINT) {
            varint();
            stop = this.at;
        } else if (type == LENGTH) {
            long length = varint();
            begin = this.at;
            stop = move(length);
        } else if (type == GROUP) {
            stop = skipGroup(number, depth);
        } else if (type == EIGHT_BYTES || type == FOUR_BYTES) {
            stop = move(type == EIGHT_BYTES ? 8 : 4);
        } else {
            throw new IOException("a field has the wire type " + type + ", which does not exist");
        }
        this.from = begin;
        this.to = stop;
    }

    private int move(long length) throws IOException {
        int left = this.end - this.at;
        if (length < 0 || length > left) {
            throw new IOException("a field of " + length + " bytes, where " + left + " follow");
        }
        this.at += (int) length;
        return this.at;
    }

    private int skipGroup(int group, int depth) throws IOException {
        if (depth >= MOST_DEPTH) {
            throw new IOException("groups are nested too deep");
        }
        int tagEnd = this.tagEnd;
        while (true) {
            int before = this.at;
            tag();
            int inner = this.number;
            if (this.type == GROUP_END) {
                if (inner != group) {
                    throw new IOException("a group ends that did not begin");
                }
                this.type = GROUP;
                this.tagEnd = tagEnd;
                return before;
            }
            skip(inner, this.type, depth + 1);
        }
    }

    long varint() throws IOException {
        long found = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            if (this.at >= this.end) {
                throw new IOException("it ends too early");
            }
            byte next = this.bytes[this.at++];
            found |= (long) (next & 127) << shift;
            if (next >= 0) {
                return found;
            }
        }
        throw new IOException("a number has more than ten bytes");
    }

    /** A little-endian number of four or eight bytes. */
    long fixed(int size) throws IOException {
        int first = this.at;
        move(size);
        long found = 0;
        for (int place = size - 1; place >= 0; place--) {
            found = found << 8 | this.bytes[first + place] & 255;
        }
        return found;
    }

    /** The number that zigzag encoding stands for. */
    static long signed(long number) {
        return number >>> 1 ^ -(number & 1);
    }

    // -- write

    static void writeVarint(ByteArrayOutputStream out, long number) {
        long left = number;
        while ((left & ~127L) != 0) {
            out.write((int) (left & 127 | 128));
            left >>>= 7;
        }
        out.write((int) left);
    }

    static void writeFixed(ByteArrayOutputStream out, long number, int size) {
        for (int place = 0; place < size; place++) {
            out.write((int) (number >>> 8 * place) & 255);
        }
    }

    static void writeBytes(ByteArrayOutputStream out, byte[] content) {
        writeVarint(out, content.length);
        out.write(content, 0, content.length);
    }
}
