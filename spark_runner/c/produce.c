/* A produce request between its batches, and its plain results, like produce.py. */
#include "engine.h"

static uint8_t *put_unsigned(uint8_t *to, size_t value)
{
    while (value > 0x7f) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

/* The bytes between two batches. */
typedef struct {
    uint8_t bytes[4096];
    size_t size;
} Glue;

static int paste(Glue *glue, PyObject *bytes)
{
    if (!PyBytes_Check(bytes)) {
        PyErr_SetString(PyExc_TypeError, "bytes are wanted");
        return 0;
    }
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);
    /* Space for a number and for empty tags is kept at the end. */
    if (glue->size + size > sizeof glue->bytes - 32) {
        PyErr_SetString(PyExc_ValueError, "a name is too long");
        return 0;
    }
    memcpy(glue->bytes + glue->size, PyBytes_AS_STRING(bytes), size);
    glue->size += size;
    return 1;
}

static void paste_unsigned(Glue *glue, size_t value)
{
    glue->size = (size_t)(put_unsigned(glue->bytes + glue->size, value) - glue->bytes);
}

static int flush(Glue *glue, PyObject *parts, size_t *total)
{
    PyObject *bytes = PyBytes_FromStringAndSize((char *)glue->bytes, (Py_ssize_t)glue->size);
    if (bytes == NULL)
        return 0;
    *total += glue->size;
    glue->size = 0;
    int done = PyList_Append(parts, bytes);
    Py_DECREF(bytes);
    return done == 0;
}

/* One topic: its key, then each partition's index and the size of the batch that follows. */
static int put_topic(Glue *glue, PyObject *topic, PyObject *parts, size_t *total)
{
    PyObject *key, *rows;
    if (!PyArg_ParseTuple(topic, "OO!", &key, &PyList_Type, &rows) || !paste(glue, key))
        return 0;
    paste_unsigned(glue, (size_t)PyList_GET_SIZE(rows) + 1);
    for (Py_ssize_t row = 0; row < PyList_GET_SIZE(rows); row++) {
        PyObject *index, *batch;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, row), "OO", &index, &batch))
            return 0;
        Py_ssize_t size = PyObject_Size(batch);
        if (size < 0 || !paste(glue, index))
            return 0;
        paste_unsigned(glue, (size_t)size + 1);
        if (!flush(glue, parts, total) || PyList_Append(parts, batch) < 0)
            return 0;
        *total += (size_t)size;
        glue->bytes[glue->size++] = 0; /* the partition's tags: none */
    }
    glue->bytes[glue->size++] = 0; /* the topic's tags */
    return 1;
}

PyObject *produce_request(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "produce_request(beginning, topics)");
        return NULL;
    }
    Glue glue;
    glue.size = 4; /* the length, which is known last */
    memset(glue.bytes, 0, 4);
    size_t total = 0;
    PyObject *parts = PyList_New(0);
    if (parts == NULL || !paste(&glue, args[0]))
        goto failed;
    paste_unsigned(&glue, (size_t)PyList_GET_SIZE(args[1]) + 1);
    for (Py_ssize_t topic = 0; topic < PyList_GET_SIZE(args[1]); topic++)
        if (!put_topic(&glue, PyList_GET_ITEM(args[1], topic), parts, &total))
            goto failed;
    glue.bytes[glue.size++] = 0; /* the request's tags */
    if (!flush(&glue, parts, &total))
        goto failed;
    write32((uint8_t *)PyBytes_AS_STRING(PyList_GET_ITEM(parts, 0)), (uint32_t)(total - 4));
    return parts;
failed:
    Py_XDECREF(parts);
    return NULL;
}

/* index, error, base offset, log append time, log start, no record errors, no message, no tags */
enum { ANSWER_SIZE = 33, ANSWER_FIELDS = 7 };

static PyObject *answer_of(PyTypeObject *kind, PyObject *key, const uint8_t *at)
{
    PyObject *found = new_tuple(kind, ANSWER_FIELDS);
    if (found == NULL)
        return NULL;
    PyObject *const values[ANSWER_FIELDS] = {
        Py_NewRef(key), PyLong_FromLong((int32_t)read32(at)),
        PyLong_FromLong((int16_t)read16(at + 4)), PyLong_FromLongLong((int64_t)read64(at + 6)),
        PyLong_FromLongLong((int64_t)read64(at + 14)), PyUnicode_New(0, 0), PyTuple_New(0),
    };
    int whole = 1;
    for (int field = 0; field < ANSWER_FIELDS; field++) {
        PyTuple_SET_ITEM(found, field, values[field]);
        whole &= values[field] != NULL;
    }
    if (!whole)
        Py_CLEAR(found);
    return found;
}

PyObject *produce_results(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyType_Check(args[4])
        || !PyType_IsSubtype((PyTypeObject *)args[4], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "produce_results(frame, at, count, key, kind)");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), partitions = PyLong_AsSsize_t(args[2]);
    Py_buffer frame;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    int plain = at >= 0 && at <= frame.len && partitions >= 0
                && partitions <= (frame.len - at) / ANSWER_SIZE;
    PyObject *found = plain ? PyList_New(partitions) : Py_NewRef(Py_None);
    for (Py_ssize_t place = 0; plain && found != NULL && place < partitions; place++) {
        const uint8_t *bytes = (const uint8_t *)frame.buf + at + place * ANSWER_SIZE;
        /* 1 is an array of no errors, 0 a null text: any other byte shifts all that follows. */
        if (bytes[30] != 1 || bytes[31] || bytes[32]) {
            Py_SETREF(found, Py_NewRef(Py_None));
            break;
        }
        PyObject *answer = answer_of((PyTypeObject *)args[4], args[3], bytes);
        if (answer == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, place, answer);
    }
    PyBuffer_Release(&frame);
    return found;
}
