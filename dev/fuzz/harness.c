/* The fuzz target of libFuzzer: starts Python and hands each input to dev/fuzz/target.py.
 *
 * BINLAKE_FUZZ_PYTHON is the interpreter of the environment, whose packages are used. An exception
 * that reaches this file is a finding, as is whatever a sanitizer reports.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static PyObject *read_log;
static PyObject *change_log;
static PyObject *sign_log;

static void stop(void) {
    PyErr_Print();
    fflush(NULL);
    abort();
}

static PyObject *function(PyObject *module, const char *name) {
    PyObject *found = PyObject_GetAttrString(module, name);
    if (found == NULL) stop();
    return found;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    PyConfig config;
    PyObject *module;
    const char *python = getenv("BINLAKE_FUZZ_PYTHON");
    (void)argc;
    (void)argv;
    if (python == NULL) {
        fputs("BINLAKE_FUZZ_PYTHON is not set; use python -m dev.fuzz\n", stderr);
        exit(2);
    }
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    PyConfig_SetBytesString(&config, &config.program_name, python);
    if (PyStatus_Exception(Py_InitializeFromConfig(&config))) exit(2);
    PyConfig_Clear(&config);
    module = PyImport_ImportModule("dev.fuzz.target");
    if (module == NULL) stop();
    read_log = function(module, "read_log");
    change_log = function(module, "change_log");
    sign_log = function(module, "sign_log");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PyObject *done = PyObject_CallFunction(read_log, "y#", (const char *)data, (Py_ssize_t)size);
    if (done == NULL) stop();
    Py_DECREF(done);
    return 0;
}

/* Copy what a Python function returned, as far as it fits. */
static size_t copied(PyObject *made, uint8_t *data, size_t max_size) {
    size_t size;
    if (made == NULL) stop();
    size = (size_t)PyBytes_GET_SIZE(made);
    if (size > max_size) size = max_size;
    memcpy(data, PyBytes_AS_STRING(made), size);
    Py_DECREF(made);
    return size;
}

/* One of four mutations knows what a log is; after the others the checksums are made right. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    if (seed % 4 == 0 && size > 0) {
        return copied(PyObject_CallFunction(change_log, "y#I", (const char *)data, (Py_ssize_t)size, seed),
                      data, max_size);
    }
    size = LLVMFuzzerMutate(data, size, max_size);
    return copied(PyObject_CallFunction(sign_log, "y#", (const char *)data, (Py_ssize_t)size), data,
                  max_size);
}
