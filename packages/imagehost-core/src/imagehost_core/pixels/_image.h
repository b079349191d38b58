/* What the compiled modules share: how pixels lie in memory, and where Pillow has them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default"))) /* picks when it is loaded */
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

enum { CHANNELS = 4 }; /* of a pixel, here and in Pillow's memory */

#define MAX_SIDE 1e6 /* in pixels; keeps products of two sides and a few bytes within 64 bits */

/* The Arrow C data interface: a list of lists of four numbers, as far as it is of interest here. */
typedef struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
} ArrowArray;

INLINE int
is_side(int side)
{
    return side >= 1 && side <= MAX_SIDE;
}

/* Returns how many bytes of pixels lie in an array of Arrow, and where; -1 where it is another. */
INLINE int64_t
find_in_arrow(PyObject *capsule, const uint8_t **pixels)
{
    const ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array"), *values;

    if (!array || !array->release || array->offset || array->n_children != 1)
        return -1;
    values = array->children[0];
    if (values->offset || values->n_buffers != 2)
        return -1;
    *pixels = values->buffers[1];
    return values->length;
}

/* The same for an array of Arrow or any other bytes, which `bytes` holds on to; -1 and an exception
 * where it is neither. */
INLINE int64_t
find_pixels(PyObject *object, Py_buffer *bytes, const uint8_t **pixels)
{
    if (PyCapsule_IsValid(object, "arrow_array"))
        return find_in_arrow(object, pixels);
    if (PyObject_GetBuffer(object, bytes, PyBUF_SIMPLE))
        return -1;
    *pixels = bytes->buf;
    return bytes->len;
}
