/* Shared by the C files: the layout of a record batch v2 (batch_header.py), big-endian numbers, and
 * the functions that `module.c` lists. */
#ifndef UNDERSTUDY_ENGINE_H
#define UNDERSTUDY_ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum {
    HEADER_SIZE = 61, LENGTH_OVERHEAD = 12, FIELDS = 13,
    LENGTH_AT = 8, EPOCH_AT = 12, MAGIC_AT = 16, CRC_AT = 17, CRC_FROM = 21, LAST_DELTA_AT = 23,
    BASE_TIME_AT = 27, MAX_TIME_AT = 35, PRODUCER_AT = 43, PRODUCER_EPOCH_AT = 51,
    SEQUENCE_AT = 53, RECORDS_AT = 57, SUMMED = HEADER_SIZE - CRC_FROM,
    CODEC_MASK = 7, NO_CODEC = 0, LZ4 = 3
};

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the functions below need a little-endian machine; Python works without them"
#endif

static inline uint64_t read64(const uint8_t *at) { uint64_t v; memcpy(&v, at, 8); return __builtin_bswap64(v); }
static inline uint32_t read32(const uint8_t *at) { uint32_t v; memcpy(&v, at, 4); return __builtin_bswap32(v); }
static inline uint16_t read16(const uint8_t *at) { uint16_t v; memcpy(&v, at, 2); return __builtin_bswap16(v); }
static inline void write64(uint8_t *at, uint64_t v) { v = __builtin_bswap64(v); memcpy(at, &v, 8); }
static inline void write32(uint8_t *at, uint32_t v) { v = __builtin_bswap32(v); memcpy(at, &v, 4); }
static inline void write16(uint8_t *at, uint16_t v) { v = __builtin_bswap16(v); memcpy(at, &v, 2); }

/* An empty instance of a named tuple type. */
static inline PyObject *new_tuple(PyTypeObject *kind, Py_ssize_t fields)
{
    PyObject *made = kind->tp_alloc(kind, fields);
#if PY_VERSION_HEX >= 0x030e0000
    if (made != NULL)
        ((PyTupleObject *)made)->ob_hash = -1; /* not hashed yet */
#endif
    return made;
}

typedef PyObject *Function(PyObject *module, PyObject *const *args, Py_ssize_t count);
Function headers, stamp, produce_request, produce_results, set_addresses, merge;

/* As `MOST_TOGETHER` of record_bytes.py; and the size of a block that is compressed alone. */
#define MOST_TOGETHER (16u << 20)
#define BLOCK (64u << 10)

/* Memory that is reused for each group. The interpreter's lock protects it. */
typedef struct {
    uint8_t *at;
    size_t size;
} Room;

/* lz4.c: whether a room has this size, after growing if needed; the size of a decompressed frame, or
 * -1 if it cannot be read here; the compressed size, or -1 if `most` is too small. */
int has(Room *room, size_t size);
Py_ssize_t inflate(Room *room, const uint8_t *frame, size_t size);
Py_ssize_t deflate(uint8_t *to, size_t most, const uint8_t *records, size_t size,
                   int acceleration);
extern int (*lz4_decompress)(const char *, char *, int, int);
extern int (*lz4_compress)(const char *, char *, int, int, int);

/* header.c: called once, before the first stamp. */
void make_tables(void);

#endif
