/* LZ4 frames, compatible with Kafka's Java clients. Uses the functions passed to `set_addresses`. */
#include "engine.h"

int (*lz4_decompress)(const char *, char *, int, int);
int (*lz4_compress)(const char *, char *, int, int, int);

int has(Room *room, size_t size)
{
    if (room->size >= size)
        return 1;
    size += size / 2;
    uint8_t *at = PyMem_RawRealloc(room->at, size);
    if (at == NULL)
        return 0;
    room->at = at;
    room->size = size;
    return 1;
}

/* The checksum of an LZ4 frame descriptor: the second byte of XXH32 of two bytes. */
static uint8_t frame_check(const uint8_t *descriptor)
{
    uint32_t hash = 374761393u + 2u;
    for (int byte = 0; byte < 2; byte++) {
        hash += descriptor[byte] * 374761393u;
        hash = ((hash << 11) | (hash >> 21)) * 2654435761u;
    }
    hash = (hash ^ (hash >> 15)) * 2246822519u;
    hash = (hash ^ (hash >> 13)) * 3266489917u;
    return (uint8_t)((hash ^ (hash >> 16)) >> 8);
}

/* Decompress a frame of Kafka's writers: independent blocks, no block checksums, no content size.
 * Returns the decompressed size, or -1 for a frame that cannot be read here. */
Py_ssize_t inflate(Room *room, const uint8_t *frame, size_t size)
{
    if (lz4_decompress == NULL || size < 11 || memcmp(frame, "\x04\x22\x4d\x18\x60", 5) != 0
        || (frame[5] & 0x8f) || frame[5] < 0x40 || frame[6] != frame_check(frame + 4))
        return -1;
    size_t most = (size_t)1 << (8 + 2 * (frame[5] >> 4)), at = 7, held = 0;
    while (size - at >= 4) {
        const uint8_t *word = frame + at;
        uint32_t block = word[0] | word[1] << 8 | word[2] << 16 | (uint32_t)word[3] << 24;
        at += 4;
        if (block == 0)
            return at == size ? (Py_ssize_t)held : -1;
        uint32_t packed = block & 0x7fffffffu;
        if (packed > size - at || packed > most || !has(room, held + most))
            return -1;
        int got = (int)packed;
        if (block & 0x80000000u)
            memcpy(room->at + held, frame + at, packed);
        else
            got = lz4_decompress((const char *)frame + at, (char *)room->at + held,
                                 (int)packed, (int)most);
        if (got < 0)
            return -1;
        held += (size_t)got;
        at += packed;
        if (held > MOST_TOGETHER)
            return -1;
    }
    return -1;
}

/* Compress records in independent blocks of 64 KB, framed like `compression.compress`. Returns the
 * size, or -1 if `most` is too small. */
Py_ssize_t deflate(uint8_t *to, size_t most, const uint8_t *records, size_t size, int acceleration)
{
    uint8_t *at = to, *stop = to + most;
    if (most < 7 + 4)
        return -1;
    memcpy(at, "\x04\x22\x4d\x18\x60\x40", 6);
    at[6] = frame_check(at + 4);
    at += 7;
    for (size_t done = 0; done < size; done += BLOCK) {
        int block = (int)(size - done < BLOCK ? size - done : BLOCK);
        if (stop - at < 4 + block + 4)
            return -1;
        const uint8_t *from = records + done;
        int got = block < 2 ? 0 : lz4_compress((const char *)from, (char *)at + 4, block, block - 1,
                                               acceleration);
        uint32_t word = got > 0 ? (uint32_t)got : (uint32_t)block | 0x80000000u;
        if (got <= 0) {
            memcpy(at + 4, from, (size_t)block);
            got = block;
        }
        at[0] = (uint8_t)word, at[1] = (uint8_t)(word >> 8);
        at[2] = (uint8_t)(word >> 16), at[3] = (uint8_t)(word >> 24);
        at += 4 + got;
    }
    memset(at, 0, 4);
    return at + 4 - to;
}
