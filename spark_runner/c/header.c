/* The header of a batch: read by `headers`, written by `stamp`, like batch_header.py. */
#include "engine.h"

/* -- checksums: CRC32C, bit-reversed as in the protocol */

#define POLYNOMIAL 0x82F63B78u
static uint32_t of_byte[256];
/* x^(8 * digit * 64^place): the effect of zero bytes after a message on its checksum. */
static uint32_t of_zeros[6][64];

static uint32_t multiplied(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (int bit = 0; bit < 32; bit++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1)));
    }
    return product;
}

void make_tables(void)
{
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1)));
        of_byte[value] = crc;
    }
    uint32_t one = 1u << 23; /* x^8 */
    for (int place = 0; place < 6; place++) {
        of_zeros[place][0] = 1u << 31; /* x^0 */
        for (int digit = 1; digit < 64; digit++)
            of_zeros[place][digit] = multiplied(of_zeros[place][digit - 1], one);
        one = multiplied(of_zeros[place][63], one);
    }
}

/* -- headers */

static PyObject *header_of(PyTypeObject *kind, const uint8_t *at)
{
    PyObject *found = new_tuple(kind, FIELDS);
    if (found == NULL)
        return NULL;
    const long long values[FIELDS] = {
        (int64_t)read64(at), (int32_t)read32(at + LENGTH_AT), (int32_t)read32(at + EPOCH_AT),
        (int8_t)at[MAGIC_AT], read32(at + CRC_AT), (int16_t)read16(at + CRC_FROM),
        (int32_t)read32(at + LAST_DELTA_AT), (int64_t)read64(at + BASE_TIME_AT),
        (int64_t)read64(at + MAX_TIME_AT), (int64_t)read64(at + PRODUCER_AT),
        (int16_t)read16(at + PRODUCER_EPOCH_AT), (int32_t)read32(at + SEQUENCE_AT),
        (int32_t)read32(at + RECORDS_AT),
    };
    for (int field = 0; field < FIELDS; field++) {
        PyObject *value = PyLong_FromLongLong(values[field]);
        if (value == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyTuple_SET_ITEM(found, field, value);
    }
    return found;
}

PyObject *headers(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyType_Check(args[3])
        || !PyType_IsSubtype((PyTypeObject *)args[3], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "headers(memory, start, stop, kind, most)");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), stop = PyLong_AsSsize_t(args[2]);
    Py_ssize_t most = PyLong_AsSsize_t(args[4]);
    Py_buffer memory;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &memory, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *found = at < 0 || stop > memory.len ? NULL : PyList_New(0);
    if (found == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_IndexError, "outside the memory");
    const uint8_t *bytes = memory.buf;
    while (found != NULL && most-- > 0 && stop - at >= HEADER_SIZE && bytes[at + MAGIC_AT] == 2) {
        Py_ssize_t size = (Py_ssize_t)(int32_t)read32(bytes + at + LENGTH_AT) + LENGTH_OVERHEAD;
        if (size < HEADER_SIZE || size > stop - at)
            break;
        PyObject *header = header_of((PyTypeObject *)args[3], bytes + at);
        if (header == NULL || PyList_Append(found, header) < 0)
            Py_CLEAR(found);
        Py_XDECREF(header);
        at += size;
    }
    PyBuffer_Release(&memory);
    return found == NULL ? NULL : Py_BuildValue("Nn", found, at);
}

/* -- writing */

PyObject *stamp(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError,
                        "stamp(memory, at, attributes, producer_id, epoch, sequence)");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    long attributes = PyLong_AsLong(args[2]), epoch = PyLong_AsLong(args[4]);
    long long producer = PyLong_AsLongLong(args[3]);
    long sequence = PyLong_AsLong(args[5]);
    Py_buffer memory;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &memory, PyBUF_WRITABLE) < 0)
        return NULL;
    int32_t length = -1;
    if (at >= 0 && memory.len - at >= HEADER_SIZE)
        length = (int32_t)read32((uint8_t *)memory.buf + at + LENGTH_AT);
    if (length < HEADER_SIZE - LENGTH_OVERHEAD) {
        PyBuffer_Release(&memory);
        PyErr_SetString(PyExc_IndexError, "there is no header");
        return NULL;
    }
    uint8_t *header = (uint8_t *)memory.buf + at, old[SUMMED];
    memcpy(old, header + CRC_FROM, SUMMED);
    write64(header, 0);
    write32(header + EPOCH_AT, (uint32_t)-1);
    header[MAGIC_AT] = 2;
    write16(header + CRC_FROM, (uint16_t)attributes);
    write64(header + PRODUCER_AT, (uint64_t)producer);
    write16(header + PRODUCER_EPOCH_AT, (uint16_t)epoch);
    write32(header + SEQUENCE_AT, (uint32_t)sequence);
    /* A checksum is linear: the change, followed by as many zero bytes as there are bytes after it. */
    uint32_t change = 0;
    for (int byte = 0; byte < SUMMED; byte++)
        change = (change >> 8) ^ of_byte[(change ^ old[byte] ^ header[CRC_FROM + byte]) & 255];
    uint32_t behind = (uint32_t)length - (HEADER_SIZE - LENGTH_OVERHEAD);
    for (int place = 0; behind; place++, behind >>= 6)
        if (behind & 63)
            change = multiplied(of_zeros[place][behind & 63], change);
    write32(header + CRC_AT, read32(header + CRC_AT) ^ change);
    PyBuffer_Release(&memory);
    Py_RETURN_NONE;
}
