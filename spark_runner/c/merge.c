/* Merge batches into one, like merge.py, and compress it like compression.py.
 *
 * LZ4 and CRC32C are those of Python packages: `set_addresses` receives the addresses of their functions.
 */
#include "engine.h"

/* Memory up to this size is kept for the next group. */
#define KEPT (4u << 20)

static uint32_t (*crc32c_value)(const uint8_t *, size_t);

static Room inflated_room, records_room;


PyObject *set_addresses(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    size_t found[3] = {0, 0, 0};
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError,
                        "set_addresses(crc32c_value, LZ4_decompress_safe, LZ4_compress_fast)");
        return NULL;
    }
    for (int place = 0; place < 3; place++)
        found[place] = PyLong_AsSize_t(args[place]);
    if (PyErr_Occurred())
        return NULL;
    crc32c_value = (uint32_t (*)(const uint8_t *, size_t))found[0];
    lz4_decompress = (int (*)(const char *, char *, int, int))found[1];
    lz4_compress = (int (*)(const char *, char *, int, int, int))found[2];
    Py_RETURN_NONE;
}

static void shrink(Room *room)
{
    if (room->size > KEPT) {
        PyMem_RawFree(room->at);
        room->at = NULL;
        room->size = 0;
    }
}

/* A number of at most 64 bits; 0 if it does not end in time. */
static int unzigzag(const uint8_t **at, const uint8_t *stop, uint64_t *value)
{
    uint64_t raw = 0;
    for (int shift = 0; *at < stop && shift < 63; shift += 7) {
        uint8_t byte = *(*at)++;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (raw >> 1) ^ (0u - (raw & 1));
            return 1;
        }
    }
    return 0;
}

static uint8_t *zigzag(uint8_t *to, uint64_t value)
{
    uint64_t raw = (value << 1) ^ (0u - (value >> 63));
    while (raw > 0x7f) {
        *to++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *to++ = (uint8_t)raw;
    return to;
}

static int length_of(uint64_t value)
{
    uint64_t raw = (value << 1) ^ (0u - (value >> 63));
    int length = 1;
    while (raw >>= 7)
        length++;
    return length;
}

/* A group in progress: written bytes, number of records, and timestamps. */
typedef struct {
    size_t written;
    uint64_t records, base;
    int64_t newest;
} Group;

/* Append the records of one batch; 0 if anything is unusual. */
static int add(Group *group, const uint8_t *header, const uint8_t *body, size_t size)
{
    const uint8_t *at = body, *stop = body + size;
    uint32_t records = read32(header + RECORDS_AT);
    uint64_t base = read64(header + BASE_TIME_AT);
    if (records != read32(header + LAST_DELTA_AT) + 1 || records == 0 || records > size)
        return 0;
    /* A length, a timestamp and an offset may each grow; nothing else does. */
    if (!has(&records_room, group->written + size + (size_t)records * 25))
        return 0;
    uint8_t *to = records_room.at + group->written;
    for (uint32_t place = 0; place < records; place++) {
        uint64_t length, time, delta;
        if (!unzigzag(&at, stop, &length) || length > (uint64_t)(stop - at) || length == 0)
            return 0;
        const uint8_t *end = at + length;
        uint8_t attributes = *at++;
        if (!unzigzag(&at, end, &time) || !unzigzag(&at, end, &delta) || delta != place)
            return 0;
        time += base;
        if (group->records == 0 && place == 0)
            group->base = time;
        time -= group->base;
        delta += group->records;
        size_t rest = (size_t)(end - at);
        to = zigzag(to, 1u + (uint64_t)length_of(time) + (uint64_t)length_of(delta) + rest);
        *to++ = attributes;
        to = zigzag(to, time);
        to = zigzag(to, delta);
        memcpy(to, at, rest);
        to += rest;
        at = end;
    }
    if (at != stop)
        return 0;
    group->written = (size_t)(to - records_room.at);
    group->records += records;
    int64_t newest = (int64_t)read64(header + MAX_TIME_AT);
    if (newest > group->newest)
        group->newest = newest;
    return 1;
}

/* One batch of the group, checked. `held` grows by the size of its records. */
static int take(Group *group, const uint8_t *batch, size_t size, size_t *held)
{
    if (size < HEADER_SIZE || batch[MAGIC_AT] != 2
        || (size_t)read32(batch + LENGTH_AT) + LENGTH_OVERHEAD != size
        || crc32c_value(batch + CRC_FROM, size - CRC_FROM) != read32(batch + CRC_AT))
        return 0;
    const uint8_t *body = batch + HEADER_SIZE;
    Py_ssize_t holds = (Py_ssize_t)(size - HEADER_SIZE);
    switch (read16(batch + CRC_FROM) & CODEC_MASK) {
    case NO_CODEC:
        break;
    case LZ4:
        holds = inflate(&inflated_room, body, size - HEADER_SIZE);
        body = inflated_room.at;
        break;
    default:
        return 0;
    }
    if (holds < 0)
        return 0;
    *held += (size_t)holds;
    return *held <= MOST_TOGETHER && add(group, batch, body, (size_t)holds);
}

/* The header: no producer yet, offsets from 0, a valid checksum. */
static void frame(uint8_t *batch, size_t size, const Group *group, int codec)
{
    write64(batch, 0);
    write32(batch + LENGTH_AT, (uint32_t)(size - LENGTH_OVERHEAD));
    write32(batch + EPOCH_AT, (uint32_t)-1);
    batch[MAGIC_AT] = 2;
    write16(batch + CRC_FROM, (uint16_t)codec);
    write32(batch + LAST_DELTA_AT, (uint32_t)group->records - 1);
    write64(batch + BASE_TIME_AT, group->base);
    write64(batch + MAX_TIME_AT, (uint64_t)group->newest);
    write64(batch + PRODUCER_AT, (uint64_t)-1);
    write16(batch + PRODUCER_EPOCH_AT, (uint16_t)-1);
    write32(batch + SEQUENCE_AT, (uint32_t)-1);
    write32(batch + RECORDS_AT, (uint32_t)group->records);
    write32(batch + CRC_AT, crc32c_value(batch + CRC_FROM, size - CRC_FROM));
}

static PyObject *batch_of(const Group *group, size_t packed, int codec, int acceleration)
{
    size_t written = group->written, most = written;
    if (codec == LZ4)
        /* Not more than the source batches, with few exceptions. */
        most = packed + BLOCK < written ? packed + BLOCK : written;
    for (;;) {
        PyObject *batch = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(HEADER_SIZE + most));
        if (batch == NULL)
            return NULL;
        uint8_t *at = (uint8_t *)PyByteArray_AS_STRING(batch);
        Py_ssize_t size = (Py_ssize_t)written;
        if (codec == LZ4)
            size = deflate(at + HEADER_SIZE, most, records_room.at, written, acceleration);
        else
            memcpy(at + HEADER_SIZE, records_room.at, written);
        if (size >= 0) {
            frame(at, HEADER_SIZE + (size_t)size, group, codec);
            if (PyByteArray_Resize(batch, HEADER_SIZE + size) == 0)
                return batch;
            Py_DECREF(batch);
            return NULL;
        }
        Py_DECREF(batch);
        most = written + (written / BLOCK + 1) * 4 + 7 + 4;
    }
}

PyObject *merge(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !PyList_Check(args[0]) || !PyList_Check(args[1])
        || PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1])) {
        PyErr_SetString(PyExc_TypeError, "merge(addresses, sizes, codec, acceleration)");
        return NULL;
    }
    long codec = PyLong_AsLong(args[2]), acceleration = PyLong_AsLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (crc32c_value == NULL || (codec != NO_CODEC && (codec != LZ4 || lz4_compress == NULL)))
        Py_RETURN_NONE;
    Group group = {0, 0, 0, INT64_MIN};
    size_t held = 0, packed = 0;
    int whole = 1;
    for (Py_ssize_t place = 0; whole && place < PyList_GET_SIZE(args[0]); place++) {
        size_t address = PyLong_AsSize_t(PyList_GET_ITEM(args[0], place));
        size_t size = PyLong_AsSize_t(PyList_GET_ITEM(args[1], place));
        if (PyErr_Occurred())
            return NULL;
        packed += size;
        whole = take(&group, (const uint8_t *)address, size, &held);
    }
    PyObject *found = NULL;
    if (whole && group.records && group.records <= INT32_MAX)
        found = batch_of(&group, packed, (int)codec, (int)acceleration);
    shrink(&inflated_room);
    shrink(&records_room);
    if (found == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return found;
}
