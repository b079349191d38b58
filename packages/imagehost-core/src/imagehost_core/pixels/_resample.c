/* Downscaling by linear-light separable convolution with premultiplied alpha.
 *
 * Steps, for each group of LINES source lines, from the top:
 *
 *   1. linearize_group: sRGB samples become linear light by a lookup table, multiplied by alpha if the image has
 *      any. For large factors, each sample is the mean of a box of source pixels (linearize_box).
 *   2. convolve_horizontally: the Catmull-Rom filter along x, into a ring buffer of lines.
 *   3. convolve_vertically: once the ring buffer holds all lines that a target row needs, the filter along y.
 *   4. write_samples: divide by alpha, clamp, and convert to 8-bit sRGB by a lookup table.
 *
 * Memory use is that of the ring buffer: a few lines. resample_pillow.py is the same algorithm in Pillow
 * operations, at about four times the time.
 *
 * A pixel is four floats: red, green, blue, and alpha or 1. The four lines of a group are interleaved pixel
 * by pixel, so one vector holds 16 floats. The result does not depend on the vector width: every sum is
 * evaluated in the same order, without fused multiply-add, so all processors of an architecture produce the
 * same bytes.
 *
 * GCC and Clang have vector types; for other compilers, such as MSVC, there are loops.
 */

#include "_image.h"

enum {
    LINES = 4,               /* source lines per group */
    GROUP = CHANNELS * LINES /* floats per column of a group */
};

#define FILTER_SUPPORT 2 /* in target pixels to each side */
#define LINEAR_MAX 65535 /* linear_light.LINEAR_MAX */

#if (defined(__GNUC__) || defined(__clang__)) && !defined(WITHOUT_VECTOR_TYPES)
typedef float HalfGroup __attribute__((vector_size(GROUP / 2 * sizeof(float)), aligned(sizeof(float))));
typedef float FloatPixel __attribute__((vector_size(CHANNELS * sizeof(float)), aligned(sizeof(float))));

#define ADD_PRODUCT(sum, weight, values) ((sum) += (weight) * (values))
#else /* the same operations in the same order, so the same result */
typedef struct {
    float values[GROUP / 2];
} HalfGroup;
typedef struct {
    float values[CHANNELS];
} FloatPixel;

#define ADD_PRODUCT(sum, weight, group) add_product((sum).values, weight, (group).values)

ALWAYS_INLINE void
add_product(float *restrict sum, float weight, const float *restrict values)
{
    for (int i = 0; i < GROUP / 2; i++)
        sum[i] += weight * values[i];
}
#endif

/* The convolution kernel of one axis, sampled for every target pixel. */
typedef struct {
    int taps;       /* source pixels per target pixel */
    int *first;     /* per target pixel: its first source pixel */
    float *weights; /* per target pixel: `taps` weights, with a sum of 1 */
} Kernel;

/* Parameters and working memory. Units are pixels unless stated otherwise. */
typedef struct {
    const uint8_t *pixels; /* `height` lines of `width` pixels, CHANNELS bytes each */
    int width, height;
    int box_width, box_height; /* box-average factor of each axis, 1 for none */
    int columns, lines;        /* size of the image after the box average */
    int target_width, target_height;
    int has_alpha;
    const float *srgb_to_linear;   /* indexed by the 8-bit sample */
    const uint8_t *linear_to_srgb; /* indexed by linear light, truncated to an integer */
    Kernel horizontal, vertical;
    float *group;      /* `columns` times GROUP floats: linear light */
    float *ring;       /* line ring buffer: `ring_lines` of `ring_width` floats */
    const float **tap; /* the ring buffer's lines that contribute to the current row */
    float *row;        /* `ring_width` floats: the current target row */
    int *samples;      /* the same, clamped to integers */
    int ring_lines, ring_width;
} Resampler;

/* Catmull-Rom's cubic: R. Keys, Cubic convolution interpolation for digital image processing, 1981,
 * with a = -1/2. */
static double
cubic(double x)
{
    x = fabs(x);
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < FILTER_SUPPORT ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : 0;
}

/* Samples the filter for resizing [from, to) of `size` source pixels to `count` target pixels; returns 0 if
 * out of memory. */
static int
make_kernel(Kernel *kernel, int size, double from, double to, int count)
{
    double scale = (to - from) / count, width = scale > 1 ? scale : 1;
    double taps = ceil(2 * FILTER_SUPPORT * width) + 1;

    kernel->taps = taps < size ? (int)taps : size;
    kernel->first = malloc((size_t)count * sizeof(int));
    kernel->weights = malloc((size_t)count * kernel->taps * sizeof(float));
    if (!kernel->first || !kernel->weights)
        return 0;
    for (int i = 0; i < count; i++) {
        double centre = from + (i + 0.5) * scale, sum = 0;
        double start = floor(centre - FILTER_SUPPORT * width + 0.5);
        float *weights = kernel->weights + (size_t)i * kernel->taps;
        int first = start > 0 ? (int)start : 0;

        first = first + kernel->taps <= size ? first : size - kernel->taps;
        for (int k = 0; k < kernel->taps; k++)
            sum += cubic((first + k + 0.5 - centre) / width);
        for (int k = 0; k < kernel->taps; k++)
            weights[k] = (float)(cubic((first + k + 0.5 - centre) / width) / sum);
        kernel->first[i] = first;
    }
    return 1;
}

static float *
ring_line(const Resampler *r, int line)
{
    return r->ring + (size_t)(line % r->ring_lines) * r->ring_width;
}

/* Converts a line to linear light, each column the mean of a box of pixels; premultiplied if `has_alpha`. */
ALWAYS_INLINE void
linearize_box(const Resampler *r, int line, float *out, int has_alpha)
{
    const float *table = r->srgb_to_linear;
    int top = line * r->box_height, bottom = top + r->box_height;

    bottom = bottom < r->height ? bottom : r->height;
    for (int x = 0; x < r->columns; x++, out += GROUP) {
        int left = x * r->box_width, right = left + r->box_width;
        float red = 0, green = 0, blue = 0, alpha = 0, scale;

        right = right < r->width ? right : r->width;
        for (int y = top; y < bottom; y++) {
            const uint8_t *pixel = r->pixels + ((size_t)y * r->width + left) * CHANNELS;
            const uint8_t *end = pixel + (size_t)(right - left) * CHANNELS;

            for (; pixel < end; pixel += CHANNELS) {
                float weight = has_alpha ? pixel[3] : 1;

                red += table[pixel[0]] * weight;
                green += table[pixel[1]] * weight;
                blue += table[pixel[2]] * weight;
                alpha += weight;
            }
        }
        scale = 1.0f / ((float)(right - left) * (float)(bottom - top));
        out[0] = red * scale;
        out[1] = green * scale;
        out[2] = blue * scale;
        out[3] = alpha * scale;
    }
}

/* Converts the group of lines that begins at `line` to linear light: the common case of an opaque image
 * without box average. Writing the four lines together touches each cache line once. */
static void
linearize_opaque(const Resampler *r, int line)
{
    const float *table = r->srgb_to_linear;
    size_t stride = (size_t)r->width * CHANNELS;
    const uint8_t *pixel = r->pixels + (size_t)line * stride;
    float *out = r->group;

    for (int x = 0; x < r->columns; x++, pixel += CHANNELS)
        for (int i = 0; i < LINES; i++, out += CHANNELS) {
            const uint8_t *sample = pixel + i * stride;

            *(FloatPixel *)out = (FloatPixel){table[sample[0]], table[sample[1]], table[sample[2]], 1};
        }
}

/* Converts the group of lines that begins at `line`. Lines past the last repeat it; no kernel reads them. */
static void
linearize_group(const Resampler *r, int line)
{
    if (!r->has_alpha && r->box_width * r->box_height == 1 && line + LINES <= r->lines) {
        linearize_opaque(r, line);
        return;
    }
    for (int i = 0; i < LINES; i++, line++) {
        if (line >= r->lines)
            line = r->lines - 1;
        if (r->has_alpha)
            linearize_box(r, line, r->group + i * CHANNELS, 1);
        else
            linearize_box(r, line, r->group + i * CHANNELS, 0);
    }
}

/* Convolves the group along x, into the ring buffer's lines from `line` on. */
MULTIVERSION static void
convolve_horizontally(const Resampler *r, int line)
{
    int taps = r->horizontal.taps;
    float *out[LINES];

    for (int i = 0; i < LINES; i++)
        out[i] = ring_line(r, line + i);
    for (int x = 0; x < r->target_width; x++) {
        const HalfGroup *pixel = (const HalfGroup *)(r->group + (size_t)r->horizontal.first[x] * GROUP);
        const float *weight = r->horizontal.weights + (size_t)x * taps, *end = weight + taps;
        HalfGroup upper = {0}, lower = {0};

        for (; weight < end; weight++, pixel += 2) {
            ADD_PRODUCT(upper, *weight, pixel[0]);
            ADD_PRODUCT(lower, *weight, pixel[1]);
        }
        for (int i = 0; i < LINES / 2; i++) {
            *(FloatPixel *)(out[i] + (size_t)x * CHANNELS) = ((FloatPixel *)&upper)[i];
            *(FloatPixel *)(out[i + LINES / 2] + (size_t)x * CHANNELS) = ((FloatPixel *)&lower)[i];
        }
    }
}

/* Convolves the ring buffer's lines along y, into target row `y`. */
MULTIVERSION static void
convolve_vertically(const Resampler *r, int y)
{
    int taps = r->vertical.taps;
    const float *weights = r->vertical.weights + (size_t)y * taps;

    for (int k = 0; k < taps; k++)
        r->tap[k] = ring_line(r, r->vertical.first[y] + k);
    for (int x = 0; x < r->ring_width; x += GROUP) {
        HalfGroup left = {0}, right = {0};

        for (int k = 0; k < taps; k++) {
            const HalfGroup *values = (const HalfGroup *)(r->tap[k] + x);

            ADD_PRODUCT(left, weights[k], values[0]);
            ADD_PRODUCT(right, weights[k], values[1]);
        }
        *(HalfGroup *)(r->row + x) = left;
        *(HalfGroup *)(r->row + x + GROUP / 2) = right;
    }
}

/* Clamps values to 0..LINEAR_MAX and truncates them; NaN becomes 0. */
MULTIVERSION static void
clamp(const float *restrict values, int *restrict samples, int count)
{
    for (int i = 0; i < count; i++) {
        float value = values[i] > 0 ? values[i] : 0;

        samples[i] = (int)(value < LINEAR_MAX ? value : LINEAR_MAX);
    }
}

/* Divides the current row by alpha and writes alpha; transparent pixels become black. */
static void
unpremultiply(const Resampler *r, uint8_t *out)
{
    float *pixel = r->row;

    for (int x = 0; x < r->target_width; x++, pixel += CHANNELS, out += CHANNELS) {
        float alpha = pixel[3] > 0 ? pixel[3] : 0;

        for (int c = 0; c < 3; c++)
            pixel[c] = alpha > 0 ? pixel[c] / alpha : 0;
        out[3] = (uint8_t)(alpha < 255 ? alpha + 0.5f : 255);
    }
}

/* Writes the current row as 8-bit sRGB. */
static void
write_samples(const Resampler *r, uint8_t *out)
{
    const uint8_t *table = r->linear_to_srgb;
    const int *samples = r->samples;

    if (r->has_alpha)
        unpremultiply(r, out);
    clamp(r->row, r->samples, r->target_width * CHANNELS);
    for (int x = 0; x < r->target_width; x++, samples += CHANNELS, out += CHANNELS) {
        out[0] = table[samples[0]];
        out[1] = table[samples[1]];
        out[2] = table[samples[2]];
        if (!r->has_alpha)
            out[3] = 255;
    }
}

/* Downscales `box` of the image into `target`; returns 0 if out of memory. */
static int
linear_downscale(Resampler *r, const double box[4], uint8_t *target)
{
    int line;

    if (!make_kernel(&r->horizontal, r->columns, box[0], box[2], r->target_width) ||
        !make_kernel(&r->vertical, r->lines, box[1], box[3], r->target_height))
        return 0;
    r->ring_lines = r->vertical.taps + LINES - 1;
    r->ring_width = (r->target_width + LINES - 1) / LINES * GROUP;
    r->group = malloc((size_t)r->columns * GROUP * sizeof(float));
    r->ring = calloc((size_t)r->ring_lines * r->ring_width, sizeof(float));
    r->tap = malloc((size_t)r->vertical.taps * sizeof(float *));
    r->row = malloc((size_t)r->ring_width * sizeof(float));
    r->samples = malloc((size_t)r->ring_width * sizeof(int));
    if (!r->group || !r->ring || !r->tap || !r->row || !r->samples)
        return 0;
    line = r->vertical.first[0];
    for (int y = 0; y < r->target_height; y++) {
        for (; line < r->vertical.first[y] + r->vertical.taps; line += LINES) {
            linearize_group(r, line);
            convolve_horizontally(r, line);
        }
        convolve_vertically(r, y);
        write_samples(r, target + (size_t)y * r->target_width * CHANNELS);
    }
    return 1;
}

static void
free_buffers(Resampler *r)
{
    free(r->horizontal.first);
    free(r->horizontal.weights);
    free(r->vertical.first);
    free(r->vertical.weights);
    free(r->group);
    free(r->ring);
    free(r->tap);
    free(r->row);
    free(r->samples);
}

static int
is_valid_range(double from, double to, int size)
{
    return from >= 0 && from < to && to <= size;
}

/* Sets the size after the box average; returns 0 if any argument is out of range or does not match. */
static int
validate(Resampler *r, int64_t bytes, int64_t target_bytes, const double box[4],
         const Py_buffer *srgb_to_linear, const Py_buffer *linear_to_srgb)
{
    if (!is_valid_side(r->width) || !is_valid_side(r->height) || !is_valid_side(r->target_width) ||
        !is_valid_side(r->target_height) || !is_valid_side(r->box_width) || !is_valid_side(r->box_height))
        return 0;
    r->columns = (r->width + r->box_width - 1) / r->box_width;
    r->lines = (r->height + r->box_height - 1) / r->box_height;
    return bytes == (int64_t)r->width * r->height * CHANNELS &&
           target_bytes == (int64_t)r->target_width * r->target_height * CHANNELS &&
           srgb_to_linear->len == 256 * sizeof(float) && linear_to_srgb->len == LINEAR_MAX + 1 &&
           is_valid_range(box[0], box[2], r->columns) && is_valid_range(box[1], box[3], r->lines);
}

static PyObject *
downscale(PyObject *module, PyObject *args)
{
    Resampler r = {0};
    double box[4];
    Py_buffer view = {0}, target_view = {0}, srgb_to_linear, linear_to_srgb;
    PyObject *pixels, *target, *result = NULL;
    uint8_t *in = NULL, *out = NULL;
    int64_t length, target_length = -1;
    int succeeded;

    (void)module;
    if (!PyArg_ParseTuple(args, "O(ii)O(ii)(dddd)(ii)py*y*:downscale", &pixels, &r.width, &r.height, &target,
                          &r.target_width, &r.target_height, &box[0], &box[1], &box[2], &box[3],
                          &r.box_width, &r.box_height, &r.has_alpha, &srgb_to_linear, &linear_to_srgb))
        return NULL;
    r.srgb_to_linear = srgb_to_linear.buf;
    r.linear_to_srgb = linear_to_srgb.buf;
    length = get_pixels(pixels, &view, PyBUF_SIMPLE, &in);
    if (!PyErr_Occurred())
        target_length = get_pixels(target, &target_view, PyBUF_WRITABLE, &out);
    if (PyErr_Occurred())
        goto done;
    r.pixels = in;
    if (!validate(&r, length, target_length, box, &srgb_to_linear, &linear_to_srgb)) {
        PyErr_SetString(PyExc_ValueError, "expected consistent sizes, box and lookup tables");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    succeeded = linear_downscale(&r, box, out);
    free_buffers(&r);
    Py_END_ALLOW_THREADS
    result = succeeded ? Py_NewRef(Py_None) : PyErr_NoMemory();
done:
    PyBuffer_Release(&view);
    PyBuffer_Release(&target_view);
    PyBuffer_Release(&srgb_to_linear);
    PyBuffer_Release(&linear_to_srgb);
    return result;
}

PyDoc_STRVAR(downscale_doc,
             "downscale(pixels, size, target, target_size, box, box_factor, has_alpha, srgb_to_linear,\n"
             "          linear_to_srgb, /)\n--\n\n"
             "Write a box of an image at a smaller size into another image.\n\n"
             "Args:\n"
             "    pixels: Red, green, blue, and alpha or padding, 4 bytes per pixel; an object with the\n"
             "        buffer protocol, or a capsule of the Arrow C data interface.\n"
             "    size: Width and height of the image, in pixels.\n"
             "    target: The pixels of the result, in the same layout: a writable buffer, or the capsule of an\n"
             "        image that is not in use yet.\n"
             "    target_size: Width and height of the result, in pixels.\n"
             "    box: Left, top, right and bottom of the source region, in pixels after the box average.\n"
             "    box_factor: Width and height of the box average that precedes the filter, in pixels.\n"
             "    has_alpha: Whether the fourth byte is alpha.\n"
             "    srgb_to_linear: 256 floats, the linear light of each 8-bit sample.\n"
             "    linear_to_srgb: 65,536 bytes, the 8-bit sample of each linear light.\n\n"
             "Raises:\n"
             "    ValueError: An argument is out of range or does not match the others.\n"
             "    MemoryError: The line buffers cannot be allocated.\n");

static PyMethodDef methods[] = {{"downscale", downscale, METH_VARARGS, downscale_doc}, {0}};

static struct PyModuleDef_Slot slots[] = {{0}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_resample",
    .m_doc = "Linear-light separable convolution with premultiplied alpha.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__resample(void)
{
    return PyModuleDef_Init(&definition);
}
