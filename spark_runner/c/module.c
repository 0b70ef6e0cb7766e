/* `spark_runner.kafka_protocol.native`: what the engine does to each batch and each record, by hand.
 *
 * Each function does to the byte what the Python beside it does, or declines: nothing is decided
 * here. Whatever is unusual (damage, a hole, a codec without a C function at hand) is answered with
 * None, and the Python, which is the reference and has the words, looks at it. The laws are in
 * tests/wire/test_native_laws.py and test_native_merging.py.
 *
 * Addresses come as Python numbers, as for crc32c_at: the caller keeps that memory alive.
 */
#include "engine.h"

#define AS_C(function) (PyCFunction)(void (*)(void))function

static PyMethodDef functions[] = {
    {"headers", AS_C(headers), METH_FASTCALL, NULL},
    {"stamp", AS_C(stamp), METH_FASTCALL, NULL},
    {"request", AS_C(request), METH_FASTCALL, NULL},
    {"answers", AS_C(answers), METH_FASTCALL, NULL},
    {"learn", AS_C(learn), METH_FASTCALL, NULL},
    {"merge", AS_C(merge), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_native(void)
{
    make_tables();
    return PyModule_Create(&definition);
}
