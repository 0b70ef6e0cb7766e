/* `spark_runner.native.c_module`: the engine's work on each batch and each record, in C.
 *
 * Each function does exactly what its Python counterpart does, or declines: nothing is decided here.
 * Anything unusual (damage, a hole, a codec without a C function) returns None. Then the Python code
 * runs, which is the reference and reports errors. The properties are in
 * tests/wire/test_native_laws.py and test_native_merging.py.
 *
 * Addresses are Python integers, as for crc32c_at: the caller keeps the memory alive.
 */
#include "engine.h"

#define AS_C(function) (PyCFunction)(void (*)(void))function

static PyMethodDef functions[] = {
    {"headers", AS_C(headers), METH_FASTCALL, NULL},
    {"stamp", AS_C(stamp), METH_FASTCALL, NULL},
    {"produce_request", AS_C(produce_request), METH_FASTCALL, NULL},
    {"produce_results", AS_C(produce_results), METH_FASTCALL, NULL},
    {"set_addresses", AS_C(set_addresses), METH_FASTCALL, NULL},
    {"merge", AS_C(merge), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "c_module", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_c_module(void)
{
    make_tables();
    return PyModule_Create(&definition);
}
