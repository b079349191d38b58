/* 4:2:0 chroma subsampling with luma correction, as libsharpyuv does.
 *
 * JPEG, WebP and AVIF store one chroma sample for every 2x2 pixels. Encoders average gamma-encoded chroma;
 * what a decoder then reconstructs differs in brightness from the source, so fine detail in saturated
 * colours becomes dark and dull. Here, for each pair of lines:
 *
 *   1. load_pair: computes luma and brightness of each pixel, and the target chroma of each 2x2 block from
 *      the mean of its linear light.
 *   2. refine_pair: upsamples the chroma as a decoder does, corrects every pixel's luma so that its
 *      brightness stays that of the source, and adds the remaining error of the mean chroma once
 *      (apply_error). Needs the next pair to be loaded.
 *   3. write_pair: upsamples the refined chroma, corrects the luma again, and writes the pixels. Needs the
 *      next pair to be refined.
 *
 * Memory use is that of a ring buffer of four pairs of lines.
 *
 * Linear light is approximated by the square of the sample instead of the sRGB transfer function: only
 * neighbouring pixels are compared, for which this is accurate enough, and the inverse is one instruction.
 * All sums are evaluated in the same order, without fused multiply-add, so all processors of an architecture
 * produce the same bytes.
 */

#include "_image.h"

enum {
    RING_PAIRS = 4, /* pairs of lines in memory */
    PADDING = 1     /* floats to each side of a line of chroma, for the upsampling filter */
};

#define SAMPLE_MAX 255
#define CHROMA_OFFSET 128 /* stored value of zero chroma */

/* Luma coefficients of ITU-R BT.601, as in JFIF and WebP. */
#define LUMA_RED 0.299f
#define LUMA_GREEN 0.587f
#define LUMA_BLUE 0.114f

/* Luminance coefficients of ITU-R BT.709, as in sRGB; applied to linear light. */
#define LUMINANCE_RED 0.2126f
#define LUMINANCE_GREEN 0.7152f
#define LUMINANCE_BLUE 0.0722f

#define MIN_DIFFERENCE 1e-6f /* avoids division by zero; far below rounding */

/* Blue minus luma is CB_SCALE * cb; red minus luma is CR_SCALE * cr. */
#define CB_SCALE (2 * (1 - LUMA_BLUE))
#define CR_SCALE (2 * (1 - LUMA_RED))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SHIFT(channel) (8 * (channel))
#else
#define SHIFT(channel) (24 - 8 * (channel))
#endif

/* A pixel of four bytes, at any alignment. */
#if defined(__GNUC__) || defined(__clang__)
typedef uint32_t Pixel __attribute__((aligned(1), may_alias));
#else
typedef uint32_t Pixel; /* MSVC assumes aliases, and its processors read unaligned integers */
#endif

/* Linear light (squared samples), summed over the two lines of a pair. */
typedef struct {
    float *red, *green, *blue;
} LinearRgb;

/* Blue and red difference of a line: per pixel, or per 2x2 block. */
typedef struct {
    float *cb, *cr;
} Chroma;

/* Two lines of the image. */
typedef struct {
    float *luma[2];       /* per line and pixel */
    float *brightness[2]; /* per line and pixel: square root of the source's luminance */
    Chroma target_chroma; /* per block: chroma of the mean linear light */
    Chroma chroma;        /* per block: refined, as written */
} LinePair;

/* Parameters and working memory. */
typedef struct {
    const Pixel *pixels; /* `height` lines of `width` pixels */
    int width, height;
    int columns, pairs; /* size in 2x2 blocks */
    int as_ycbcr;       /* 0 for RGB output */
    LinePair ring[RING_PAIRS];
    LinearRgb linear;    /* of the current pair */
    Chroma upsampled;    /* per pixel of the current line */
    Chroma mean_chroma;  /* per block of the current pair */
    float *interpolated; /* per block: chroma interpolated vertically */
    float *memory;       /* the one allocation behind all buffers */
} Subsampler;

static LinePair *
get_pair(Subsampler *s, int pair)
{
    return &s->ring[pair % RING_PAIRS];
}

static float *
take_floats(float **memory, size_t count)
{
    float *part = *memory;

    *memory += count;
    return part;
}

static Chroma
take_chroma(float **memory, size_t count)
{
    return (Chroma){take_floats(memory, count), take_floats(memory, count)};
}

/* Allocates all buffers; returns 0 if out of memory. */
static int
allocate_buffers(Subsampler *s)
{
    size_t line = 2 * (size_t)s->columns, blocks = (size_t)s->columns + 2 * PADDING;
    size_t count = RING_PAIRS * (4 * line + 4 * blocks) + 5 * line + 3 * blocks;
    float *memory = s->memory = malloc(count * sizeof(float));

    if (!memory)
        return 0;
    for (LinePair *pair = s->ring; pair < s->ring + RING_PAIRS; pair++) {
        for (int i = 0; i < 2; i++) {
            pair->luma[i] = take_floats(&memory, line);
            pair->brightness[i] = take_floats(&memory, line);
        }
        pair->target_chroma = take_chroma(&memory, blocks);
        pair->chroma = take_chroma(&memory, blocks);
    }
    s->linear = (LinearRgb){take_floats(&memory, line), take_floats(&memory, line),
                            take_floats(&memory, line)};
    s->upsampled = take_chroma(&memory, line);
    s->mean_chroma = take_chroma(&memory, blocks);
    s->interpolated = take_floats(&memory, blocks);
    return 1;
}

ALWAYS_INLINE float
clamp(float value, float low, float high)
{
    return fminf(fmaxf(value, low), high);
}

ALWAYS_INLINE float
to_red(float luma, float cr)
{
    return clamp(luma + CR_SCALE * cr, 0, SAMPLE_MAX);
}

ALWAYS_INLINE float
to_green(float luma, float cb, float cr)
{
    float difference = CB_SCALE * LUMA_BLUE / LUMA_GREEN * cb + CR_SCALE * LUMA_RED / LUMA_GREEN * cr;

    return clamp(luma - difference, 0, SAMPLE_MAX);
}

ALWAYS_INLINE float
to_blue(float luma, float cb)
{
    return clamp(luma + CB_SCALE * cb, 0, SAMPLE_MAX);
}

ALWAYS_INLINE float
to_luma(float red, float green, float blue)
{
    return LUMA_RED * red + LUMA_GREEN * green + LUMA_BLUE * blue;
}

ALWAYS_INLINE float
to_brightness(float red, float green, float blue)
{
    return sqrtf(LUMINANCE_RED * red * red + LUMINANCE_GREEN * green * green + LUMINANCE_BLUE * blue * blue);
}

/* Computes luma, brightness and linear light of a line of pixels; a pair's second line adds its linear light
 * to the first's. */
MULTIVERSION static void
load_line(const Pixel *restrict pixels, int width, int second, float *restrict luma,
          float *restrict brightness, float *restrict red, float *restrict green, float *restrict blue)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        Pixel pixel = pixels[x];
        float r = (float)(int)(pixel >> SHIFT(0) & 255);
        float g = (float)(int)(pixel >> SHIFT(1) & 255);
        float b = (float)(int)(pixel >> SHIFT(2) & 255);

        luma[x] = to_luma(r, g, b);
        brightness[x] = to_brightness(r, g, b);
        red[x] = (second ? red[x] : 0) + r * r;
        green[x] = (second ? green[x] : 0) + g * g;
        blue[x] = (second ? blue[x] : 0) + b * b;
    }
}

/* Computes the chroma of each block from the mean linear light of its four pixels. */
MULTIVERSION static void
average_chroma(int columns, const float *restrict red, const float *restrict green,
               const float *restrict blue, float *restrict cb, float *restrict cr)
{
    for (ptrdiff_t x = 0; x < columns; x++) {
        float r = sqrtf((red[2 * x] + red[2 * x + 1]) / 4);
        float g = sqrtf((green[2 * x] + green[2 * x + 1]) / 4);
        float b = sqrtf((blue[2 * x] + blue[2 * x + 1]) / 4);
        float luma = to_luma(r, g, b);

        cb[x] = (b - luma) * (1 / CB_SCALE);
        cr[x] = (r - luma) * (1 / CR_SCALE);
    }
}

/* Upsamples one component to a line of pixels by the decoders' triangle filter: 3/4 of the nearer block and
 * 1/4 of the adjacent one, on both axes. */
MULTIVERSION static void
upsample_component(int columns, const float *restrict near, const float *restrict adjacent,
                   float *restrict interpolated, float *restrict out)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        interpolated[x + PADDING] = 0.75f * near[x] + 0.25f * adjacent[x];
    interpolated[0] = interpolated[PADDING];
    interpolated[columns + PADDING] = interpolated[columns + PADDING - 1];
    for (ptrdiff_t x = 0; x < columns; x++) {
        float here = 0.75f * interpolated[x + PADDING];

        out[2 * x] = here + 0.25f * interpolated[x];
        out[2 * x + 1] = here + 0.25f * interpolated[x + 2 * PADDING];
    }
}

/* Adjusts each pixel's luma so that, with its upsampled chroma, its brightness is that of the source. */
MULTIVERSION static void
correct_luma(int width, const float *restrict cb, const float *restrict cr, const float *restrict brightness,
             float *restrict luma)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = to_red(luma[x], cr[x]);
        float g = to_green(luma[x], cb[x], cr[x]);
        float b = to_blue(luma[x], cb[x]);

        luma[x] = clamp(luma[x] + brightness[x] - to_brightness(r, g, b), 0, SAMPLE_MAX);
    }
}

/* Computes the linear light of a line as decoded; a pair's second line adds to the first's. */
MULTIVERSION static void
accumulate_linear(int width, int second, const float *restrict luma, const float *restrict cb,
                  const float *restrict cr, float *restrict red, float *restrict green, float *restrict blue)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = to_red(luma[x], cr[x]);
        float g = to_green(luma[x], cb[x], cr[x]);
        float b = to_blue(luma[x], cb[x]);

        red[x] = (second ? red[x] : 0) + r * r;
        green[x] = (second ? green[x] : 0) + g * g;
        blue[x] = (second ? blue[x] : 0) + b * b;
    }
}

/* Adds to the target chroma its difference from the mean chroma as decoded. */
MULTIVERSION static void
apply_error(int columns, const float *restrict target, const float *restrict mean, float *restrict chroma)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        chroma[x] = clamp(target[x] + (target[x] - mean[x]), -SAMPLE_MAX / 2.0f, SAMPLE_MAX / 2.0f);
}

/* Repeats the last pixel of a line of odd width. */
static void
pad_to_even_width(const Subsampler *s, float *line)
{
    line[2 * s->columns - 1] = line[s->width - 1];
}

static void
load_pair(Subsampler *s, int p)
{
    LinePair *pair = get_pair(s, p);
    LinearRgb linear = s->linear;

    for (int i = 0; i < 2; i++) {
        int y = 2 * p + i < s->height ? 2 * p + i : s->height - 1;

        load_line(s->pixels + (size_t)y * s->width, s->width, i, pair->luma[i], pair->brightness[i],
                  linear.red, linear.green, linear.blue);
        pad_to_even_width(s, pair->luma[i]);
        pad_to_even_width(s, pair->brightness[i]);
    }
    pad_to_even_width(s, linear.red);
    pad_to_even_width(s, linear.green);
    pad_to_even_width(s, linear.blue);
    average_chroma(s->columns, linear.red, linear.green, linear.blue, pair->target_chroma.cb,
                   pair->target_chroma.cr);
}

/* Returns the pair adjacent to a line of pair `p`: above its first line, below its second. */
static LinePair *
adjacent_pair(Subsampler *s, int p, int i)
{
    int other = i ? p + 1 : p - 1;

    return get_pair(s, other >= 0 && other < s->pairs ? other : p);
}

static void
upsample_chroma(const Subsampler *s, Chroma near, Chroma adjacent)
{
    upsample_component(s->columns, near.cb, adjacent.cb, s->interpolated, s->upsampled.cb);
    upsample_component(s->columns, near.cr, adjacent.cr, s->interpolated, s->upsampled.cr);
}

static void
refine_pair(Subsampler *s, int p)
{
    LinePair *pair = get_pair(s, p);
    LinearRgb linear = s->linear;
    Chroma line = s->upsampled;
    int width = 2 * s->columns;

    for (int i = 0; i < 2; i++) {
        upsample_chroma(s, pair->target_chroma, adjacent_pair(s, p, i)->target_chroma);
        correct_luma(width, line.cb, line.cr, pair->brightness[i], pair->luma[i]);
        accumulate_linear(width, i, pair->luma[i], line.cb, line.cr, linear.red, linear.green, linear.blue);
    }
    average_chroma(s->columns, linear.red, linear.green, linear.blue, s->mean_chroma.cb, s->mean_chroma.cr);
    apply_error(s->columns, pair->target_chroma.cb, s->mean_chroma.cb, pair->chroma.cb);
    apply_error(s->columns, pair->target_chroma.cr, s->mean_chroma.cr, pair->chroma.cr);
}

ALWAYS_INLINE Pixel
pack_pixel(float first, float second, float third)
{
    return (Pixel)(int)(first + 0.5f) << SHIFT(0) | (Pixel)(int)(second + 0.5f) << SHIFT(1) |
           (Pixel)(int)(third + 0.5f) << SHIFT(2) | (Pixel)255 << SHIFT(3);
}

/* Assigns each block's chroma to both of its pixels on a line. */
MULTIVERSION static void
duplicate_chroma(int columns, const float *restrict chroma, float *restrict out)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        out[2 * x] = out[2 * x + 1] = chroma[x];
}

/* Returns the factor, at most 1, by which a channel's difference from luma fits below SAMPLE_MAX. */
ALWAYS_INLINE float
gamut_scale(float luma, float difference)
{
    return fminf((SAMPLE_MAX - luma) / fmaxf(difference, MIN_DIFFERENCE), 1);
}

/* Writes a line as RGB. Colours above SAMPLE_MAX are desaturated, not clipped, which would lower their luma:
 * white beside red stays white. */
MULTIVERSION static void
write_rgb(int width, const float *restrict luma, const float *restrict cb, const float *restrict cr,
          Pixel *restrict out)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = CR_SCALE * cr[x], b = CB_SCALE * cb[x];
        float g = -(LUMA_RED / LUMA_GREEN * r + LUMA_BLUE / LUMA_GREEN * b);
        float scale = fminf(gamut_scale(luma[x], r), fminf(gamut_scale(luma[x], g), gamut_scale(luma[x], b)));

        out[x] = pack_pixel(clamp(luma[x] + scale * r, 0, SAMPLE_MAX),
                            clamp(luma[x] + scale * g, 0, SAMPLE_MAX),
                            clamp(luma[x] + scale * b, 0, SAMPLE_MAX));
    }
}

/* Writes a line as YCbCr (ITU-T T.871). */
MULTIVERSION static void
write_ycbcr(int width, const float *restrict luma, const float *restrict cb, const float *restrict cr,
            Pixel *restrict out)
{
    for (ptrdiff_t x = 0; x < width; x++)
        out[x] = pack_pixel(luma[x], clamp(cb[x] + CHROMA_OFFSET, 0, SAMPLE_MAX),
                            clamp(cr[x] + CHROMA_OFFSET, 0, SAMPLE_MAX));
}

static void
write_pair(Subsampler *s, int p, Pixel *out)
{
    LinePair *pair = get_pair(s, p);
    Chroma line = s->upsampled;

    out += (size_t)2 * p * s->width;
    for (int i = 0; i < 2 && 2 * p + i < s->height; i++, out += s->width) {
        upsample_chroma(s, pair->chroma, adjacent_pair(s, p, i)->chroma);
        correct_luma(s->width, line.cb, line.cr, pair->brightness[i], pair->luma[i]);
        duplicate_chroma(s->columns, pair->chroma.cb, line.cb);
        duplicate_chroma(s->columns, pair->chroma.cr, line.cr);
        (s->as_ycbcr ? write_ycbcr : write_rgb)(s->width, pair->luma[i], line.cb, line.cr, out);
    }
}

/* Runs the three steps over all pairs of lines; returns 0 if out of memory. */
static int
process_image(Subsampler *s, Pixel *out)
{
    if (!allocate_buffers(s))
        return 0;
    for (int p = 0; p < s->pairs + 2; p++) {
        if (p < s->pairs)
            load_pair(s, p);
        if (p >= 1 && p - 1 < s->pairs)
            refine_pair(s, p - 1);
        if (p >= 2)
            write_pair(s, p - 2, out);
    }
    free(s->memory);
    return 1;
}

static PyObject *
subsample_420(PyObject *module, PyObject *args)
{
    Subsampler s = {0};
    Py_buffer view = {0}, target_view = {0};
    PyObject *object, *target, *result = NULL;
    uint8_t *pixels = NULL, *out = NULL;
    int64_t length, target_length = -1;
    int succeeded;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO(ii)p:subsample_420", &object, &target, &s.width, &s.height, &s.as_ycbcr))
        return NULL;
    length = get_pixels(object, &view, PyBUF_SIMPLE, &pixels);
    if (!PyErr_Occurred())
        target_length = get_pixels(target, &target_view, PyBUF_WRITABLE, &out);
    if (PyErr_Occurred())
        goto done;
    if (!is_valid_side(s.width) || !is_valid_side(s.height) || length != target_length ||
        length != (int64_t)s.width * s.height * CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "expected 4 bytes for each pixel of the size");
        goto done;
    }
    s.pixels = (const Pixel *)pixels;
    s.columns = (s.width + 1) / 2;
    s.pairs = (s.height + 1) / 2;
    Py_BEGIN_ALLOW_THREADS
    succeeded = process_image(&s, (Pixel *)out);
    Py_END_ALLOW_THREADS
    result = succeeded ? Py_NewRef(Py_None) : PyErr_NoMemory();
done:
    PyBuffer_Release(&view);
    PyBuffer_Release(&target_view);
    return result;
}

PyDoc_STRVAR(subsample_420_doc,
             "subsample_420(pixels, target, size, as_ycbcr, /)\n--\n\n"
             "Write an image with one chroma value for every 2x2 pixels into another image.\n\n"
             "Args:\n"
             "    pixels: Red, green, blue and padding, 4 bytes per pixel; an object with the buffer\n"
             "        protocol, or a capsule of the Arrow C data interface.\n"
             "    target: The pixels of the result, in the same layout: a writable buffer, or the capsule of an\n"
             "        image that is not in use yet.\n"
             "    size: Width and height of both images, in pixels.\n"
             "    as_ycbcr: Whether the result is YCbCr instead of RGB.\n\n"
             "Raises:\n"
             "    ValueError: The length of the pixels does not match the size.\n"
             "    MemoryError: The line buffers cannot be allocated.\n");

static PyMethodDef methods[] = {{"subsample_420", subsample_420, METH_VARARGS, subsample_420_doc}, {0}};

static struct PyModuleDef_Slot slots[] = {{0}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_chroma",
    .m_doc = "4:2:0 chroma subsampling with luma correction.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__chroma(void)
{
    return PyModuleDef_Init(&definition);
}
