/* Shared by the C extensions: the pixel layout, and access to the pixels of a Pillow image. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define MULTIVERSION __attribute__((target_clones("avx2", "default"))) /* chosen by the loader */
#else
#define MULTIVERSION
#endif
#if defined(__GNUC__) || defined(__clang__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else /* MSVC, which by default has C99 without `restrict`; its own headers, above, use the word otherwise */
#define ALWAYS_INLINE static __forceinline
#define restrict __restrict
#endif

enum { CHANNELS = 4 }; /* bytes per pixel, as in Pillow's own storage */

#define MAX_SIDE 1e6 /* in pixels; keeps width * height * CHANNELS within 64 bits */

/* The ArrowArray struct of the Arrow C data interface. */
typedef struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
} ArrowArray;

ALWAYS_INLINE int
is_valid_side(int side)
{
    return side >= 1 && side <= MAX_SIDE;
}

/* Sets `pixels` to the values of an Arrow array of fixed-size lists. Returns their length in bytes, or -1
 * where the array has another layout. */
ALWAYS_INLINE int64_t
get_arrow_pixels(PyObject *capsule, uint8_t **pixels)
{
    const ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array"), *values;

    if (!array || !array->release || array->offset || array->n_children != 1)
        return -1;
    values = array->children[0];
    if (values->offset || values->n_buffers != 2)
        return -1;
    *pixels = (uint8_t *)values->buffers[1];
    return values->length;
}

/* Sets `pixels` to the data of an Arrow array capsule or of an object with the buffer protocol, which `view`
 * then keeps alive. Returns the length in bytes, or -1; an exception is set where the object is neither, or a
 * buffer with PyBUF_WRITABLE in `flags` is read-only. */
ALWAYS_INLINE int64_t
get_pixels(PyObject *object, Py_buffer *view, int flags, uint8_t **pixels)
{
    if (PyCapsule_IsValid(object, "arrow_array"))
        return get_arrow_pixels(object, pixels);
    if (PyObject_GetBuffer(object, view, flags))
        return -1;
    *pixels = view->buf;
    return view->len;
}
