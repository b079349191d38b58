/* Chooses the colours of a picture that keeps one for every two by two pixels (4:2:0).
 *
 * JPEG, WebP and AVIF do. Left to themselves they average numbers, which are not light, and what a
 * decoder makes of the averages is not as bright as the pixels were: fine detail in strong colours
 * gets dark and dull. Here colours are averaged as light, a decoder's guess of what lies between them
 * is made, and every pixel gets the luma with which it is as bright as it was, whatever its colour has
 * become. How far the averages are off after that is made good once.
 *
 * The lines of a picture pass through it once, in pairs, in three steps: a pair is taken in, then its
 * colours are settled, for which the next pair has to be in, and then it is written, for which the
 * next has to be settled. So the memory is that of four pairs.
 *
 * Light is the square of a level here, not its 2.4th power or so: neighbours are compared, for which
 * that is near enough, and a square root is one instruction. Every number is made in the same order
 * for each pixel, without fused operations, so all processors of a kind make the same bytes.
 */

#include "_image.h"

#include <math.h>
#include <stdlib.h>

enum {
    RING = 4,  /* pairs of lines in memory */
    MARGIN = 1 /* floats to each side of a line of colours, for its neighbours */
};

#define LEVEL_MAX 255
#define GREY 128 /* a colour that is none, where colours are written */

/* How much of a pixel's luma its red, green and blue are (ITU-R BT.601, as JFIF and WebP have it). */
#define LUMA_RED 0.299f
#define LUMA_GREEN 0.587f
#define LUMA_BLUE 0.114f

/* How much of its brightness (ITU-R BT.709, as sRGB has it). */
#define BRIGHT_RED 0.2126f
#define BRIGHT_GREEN 0.7152f
#define BRIGHT_BLUE 0.0722f

#define LEAST_DIFFERENCE 1e-6f /* keeps a quotient within floats; far less than rounding leaves */

/* How far colours reach: a half to each side of grey. */
#define BLUE_REACH (2 * (1 - LUMA_BLUE))
#define RED_REACH (2 * (1 - LUMA_RED))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SHIFT(channel) (8 * (channel))
#else
#define SHIFT(channel) (24 - 8 * (channel))
#endif

/* A pixel of four bytes, wherever it lies. */
typedef uint32_t Pixel __attribute__((aligned(1), may_alias));

/* Two lines by channel: the squares of their levels, added. */
typedef struct {
    float *red, *green, *blue;
} Light;

/* A line by pixel, or a pair of lines by two by two pixels: how much bluer and redder than grey. */
typedef struct {
    float *blue, *red;
} Colours;

typedef struct {
    float *luma[2];   /* by line */
    float *bright[2]; /* by line: how bright the pixels are, and stay */
    Colours aim;      /* the average of their light */
    Colours kept;     /* what will be written */
} Pair;

/* What is to be done, and the memory for it. */
typedef struct {
    const Pixel *pixels; /* `height` lines of `width` */
    int width, height;
    int columns, pairs; /* how many two by two pixels there are */
    int planes;         /* whether luma and colours are written, in place of red, green and blue */
    Pair ring[RING];
    Light light;      /* of the pair at hand */
    Colours spread;   /* over the pixels of the line at hand */
    Colours averages; /* of the pair at hand */
    float *between;   /* two lines of colours: one line of the picture */
    float *memory;    /* all of these */
} Job;

static Pair *
pair_at(Job *job, int pair)
{
    return &job->ring[pair % RING];
}

static float *
carve(float **memory, size_t count)
{
    float *part = *memory;

    *memory += count;
    return part;
}

static Colours
carve_colours(float **memory, size_t count)
{
    return (Colours){carve(memory, count), carve(memory, count)};
}

/* Shares out the memory; false where there is not enough. */
static int
make_room(Job *job)
{
    size_t line = 2 * (size_t)job->columns, colours = (size_t)job->columns + 2 * MARGIN;
    size_t count = RING * (4 * line + 4 * colours) + 5 * line + 3 * colours;
    float *memory = job->memory = malloc(count * sizeof(float));

    if (!memory)
        return 0;
    for (Pair *pair = job->ring; pair < job->ring + RING; pair++) {
        for (int i = 0; i < 2; i++) {
            pair->luma[i] = carve(&memory, line);
            pair->bright[i] = carve(&memory, line);
        }
        pair->aim = carve_colours(&memory, colours);
        pair->kept = carve_colours(&memory, colours);
    }
    job->light = (Light){carve(&memory, line), carve(&memory, line), carve(&memory, line)};
    job->spread = carve_colours(&memory, line);
    job->averages = carve_colours(&memory, colours);
    job->between = carve(&memory, colours);
    return 1;
}

INLINE float
within(float value, float least, float most)
{
    return fminf(fmaxf(value, least), most);
}

INLINE float
red_of(float luma, float redder)
{
    return within(luma + RED_REACH * redder, 0, LEVEL_MAX);
}

INLINE float
green_of(float luma, float bluer, float redder)
{
    float less = BLUE_REACH * LUMA_BLUE / LUMA_GREEN * bluer + RED_REACH * LUMA_RED / LUMA_GREEN * redder;

    return within(luma - less, 0, LEVEL_MAX);
}

INLINE float
blue_of(float luma, float bluer)
{
    return within(luma + BLUE_REACH * bluer, 0, LEVEL_MAX);
}

INLINE float
luma_of(float red, float green, float blue)
{
    return LUMA_RED * red + LUMA_GREEN * green + LUMA_BLUE * blue;
}

INLINE float
brightness_of(float red, float green, float blue)
{
    return sqrtf(BRIGHT_RED * red * red + BRIGHT_GREEN * green * green + BRIGHT_BLUE * blue * blue);
}

/* Takes in a line of pixels: its luma, its brightness, its light; the second adds to the first's. */
WIDE static void
take_line(const Pixel *restrict pixels, int width, int second, float *restrict luma, float *restrict bright,
          float *restrict red, float *restrict green, float *restrict blue)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        Pixel pixel = pixels[x];
        float r = (float)(int)(pixel >> SHIFT(0) & 255);
        float g = (float)(int)(pixel >> SHIFT(1) & 255);
        float b = (float)(int)(pixel >> SHIFT(2) & 255);

        luma[x] = luma_of(r, g, b);
        bright[x] = brightness_of(r, g, b);
        red[x] = (second ? red[x] : 0) + r * r;
        green[x] = (second ? green[x] : 0) + g * g;
        blue[x] = (second ? blue[x] : 0) + b * b;
    }
}

/* Averages the light of two lines, and makes colours of it. */
WIDE static void
average(int columns, const float *restrict red, const float *restrict green, const float *restrict blue,
        float *restrict bluer, float *restrict redder)
{
    for (ptrdiff_t x = 0; x < columns; x++) {
        float r = sqrtf((red[2 * x] + red[2 * x + 1]) / 4);
        float g = sqrtf((green[2 * x] + green[2 * x + 1]) / 4);
        float b = sqrtf((blue[2 * x] + blue[2 * x + 1]) / 4);
        float luma = luma_of(r, g, b);

        bluer[x] = (b - luma) * (1 / BLUE_REACH);
        redder[x] = (r - luma) * (1 / RED_REACH);
    }
}

/* Spreads a line of colours, and a quarter of the one above or below it, over a line of pixels, as
 * decoders do: three quarters of what is near and one of what is next, on both axes. */
WIDE static void
spread(int columns, const float *restrict near, const float *restrict next, float *restrict between,
       float *restrict out)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        between[x + MARGIN] = 0.75f * near[x] + 0.25f * next[x];
    between[0] = between[MARGIN];
    between[columns + MARGIN] = between[columns + MARGIN - 1];
    for (ptrdiff_t x = 0; x < columns; x++) {
        float here = 0.75f * between[x + MARGIN];

        out[2 * x] = here + 0.25f * between[x];
        out[2 * x + 1] = here + 0.25f * between[x + 2 * MARGIN];
    }
}

/* Gives each pixel of a line the luma with which it is as bright as it was. */
WIDE static void
relight(int width, const float *restrict bluer, const float *restrict redder, const float *restrict bright,
        float *restrict luma)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = red_of(luma[x], redder[x]);
        float g = green_of(luma[x], bluer[x], redder[x]);
        float b = blue_of(luma[x], bluer[x]);

        luma[x] = within(luma[x] + bright[x] - brightness_of(r, g, b), 0, LEVEL_MAX);
    }
}

/* Says what light a line of pixels has become; the second adds to the first's. */
WIDE static void
look(int width, int second, const float *restrict luma, const float *restrict bluer,
     const float *restrict redder, float *restrict red, float *restrict green, float *restrict blue)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = red_of(luma[x], redder[x]);
        float g = green_of(luma[x], bluer[x], redder[x]);
        float b = blue_of(luma[x], bluer[x]);

        red[x] = (second ? red[x] : 0) + r * r;
        green[x] = (second ? green[x] : 0) + g * g;
        blue[x] = (second ? blue[x] : 0) + b * b;
    }
}

/* Moves the colours by what their averages are off. */
WIDE static void
make_good(int columns, const float *restrict aim, const float *restrict averages, float *restrict kept)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        kept[x] = within(aim[x] + (aim[x] - averages[x]), -LEVEL_MAX / 2.0f, LEVEL_MAX / 2.0f);
}

/* Repeats the last pixel of a line where the width is odd. */
static void
even_out(const Job *job, float *line)
{
    line[2 * job->columns - 1] = line[job->width - 1];
}

static void
take(Job *job, int p)
{
    Pair *pair = pair_at(job, p);
    Light light = job->light;

    for (int i = 0; i < 2; i++) {
        int y = 2 * p + i < job->height ? 2 * p + i : job->height - 1;

        take_line(job->pixels + (size_t)y * job->width, job->width, i, pair->luma[i], pair->bright[i],
                  light.red, light.green, light.blue);
        even_out(job, pair->luma[i]);
        even_out(job, pair->bright[i]);
    }
    even_out(job, light.red);
    even_out(job, light.green);
    even_out(job, light.blue);
    average(job->columns, light.red, light.green, light.blue, pair->aim.blue, pair->aim.red);
}

/* Says which pair lies beside a line of a pair: above its first line, below its second. */
static Pair *
beside(Job *job, int p, int i)
{
    int other = i ? p + 1 : p - 1;

    return pair_at(job, other >= 0 && other < job->pairs ? other : p);
}

static void
spread_over(const Job *job, Colours near, Colours next)
{
    spread(job->columns, near.blue, next.blue, job->between, job->spread.blue);
    spread(job->columns, near.red, next.red, job->between, job->spread.red);
}

static void
settle(Job *job, int p)
{
    Pair *pair = pair_at(job, p);
    Light light = job->light;
    int width = 2 * job->columns;

    for (int i = 0; i < 2; i++) {
        spread_over(job, pair->aim, beside(job, p, i)->aim);
        relight(width, job->spread.blue, job->spread.red, pair->bright[i], pair->luma[i]);
        look(width, i, pair->luma[i], job->spread.blue, job->spread.red, light.red, light.green, light.blue);
    }
    average(job->columns, light.red, light.green, light.blue, job->averages.blue, job->averages.red);
    make_good(job->columns, pair->aim.blue, job->averages.blue, pair->kept.blue);
    make_good(job->columns, pair->aim.red, job->averages.red, pair->kept.red);
}

INLINE Pixel
pixel_of(float first, float second, float third)
{
    return (Pixel)(int)(first + 0.5f) << SHIFT(0) | (Pixel)(int)(second + 0.5f) << SHIFT(1) |
           (Pixel)(int)(third + 0.5f) << SHIFT(2) | (Pixel)255 << SHIFT(3);
}

/* Gives both pixels of two the same colour. */
WIDE static void
repeat(int columns, const float *restrict colours, float *restrict out)
{
    for (ptrdiff_t x = 0; x < columns; x++)
        out[2 * x] = out[2 * x + 1] = colours[x];
}

/* Says how much of a difference from a luma there is room for above it, 1 for all of it. */
INLINE float
room(float luma, float difference)
{
    return fminf((LEVEL_MAX - luma) / fmaxf(difference, LEAST_DIFFERENCE), 1);
}

/* Writes a line as red, green and blue. What is brighter than a level can be gets less colour, and not
 * less luma, as it would by being cut off: white beside red stays white. */
WIDE static void
write_mixed(int width, const float *restrict luma, const float *restrict bluer, const float *restrict redder,
            Pixel *restrict out)
{
    for (ptrdiff_t x = 0; x < width; x++) {
        float r = RED_REACH * redder[x], b = BLUE_REACH * bluer[x];
        float g = -(LUMA_RED / LUMA_GREEN * r + LUMA_BLUE / LUMA_GREEN * b);
        float share = fminf(room(luma[x], r), fminf(room(luma[x], g), room(luma[x], b)));

        out[x] = pixel_of(within(luma[x] + share * r, 0, LEVEL_MAX),
                          within(luma[x] + share * g, 0, LEVEL_MAX),
                          within(luma[x] + share * b, 0, LEVEL_MAX));
    }
}

/* Writes a line as luma and colours. */
WIDE static void
write_planes(int width, const float *restrict luma, const float *restrict bluer, const float *restrict redder,
             Pixel *restrict out)
{
    for (ptrdiff_t x = 0; x < width; x++)
        out[x] = pixel_of(luma[x], within(bluer[x] + GREY, 0, LEVEL_MAX),
                          within(redder[x] + GREY, 0, LEVEL_MAX));
}

static void
write_pair(Job *job, int p, Pixel *out)
{
    Pair *pair = pair_at(job, p);
    Colours line = job->spread;

    out += (size_t)2 * p * job->width;
    for (int i = 0; i < 2 && 2 * p + i < job->height; i++, out += job->width) {
        spread_over(job, pair->kept, beside(job, p, i)->kept);
        relight(job->width, line.blue, line.red, pair->bright[i], pair->luma[i]);
        repeat(job->columns, pair->kept.blue, line.blue);
        repeat(job->columns, pair->kept.red, line.red);
        (job->planes ? write_planes : write_mixed)(job->width, pair->luma[i], line.blue, line.red, out);
    }
}

/* Does the work; false where memory is short. */
static int
run(Job *job, Pixel *out)
{
    if (!make_room(job))
        return 0;
    for (int p = 0; p < job->pairs + 2; p++) {
        if (p < job->pairs)
            take(job, p);
        if (p >= 1 && p - 1 < job->pairs)
            settle(job, p - 1);
        if (p >= 2)
            write_pair(job, p - 2, out);
    }
    free(job->memory);
    return 1;
}

static PyObject *
halve(PyObject *module, PyObject *args)
{
    Job job = {0};
    Py_buffer bytes = {0};
    PyObject *pixels, *target = NULL;
    const uint8_t *first = NULL;
    Pixel *out;
    int64_t length;
    int done;

    (void)module;
    if (!PyArg_ParseTuple(args, "O(ii)p:halve", &pixels, &job.width, &job.height, &job.planes))
        return NULL;
    length = find_pixels(pixels, &bytes, &first);
    if (PyErr_Occurred())
        goto out;
    if (!is_side(job.width) || !is_side(job.height) || length != (int64_t)job.width * job.height * CHANNELS) {
        PyErr_SetString(PyExc_ValueError, "expected as many pixels as the size says");
        goto out;
    }
    job.pixels = (const Pixel *)first;
    job.columns = (job.width + 1) / 2;
    job.pairs = (job.height + 1) / 2;
    target = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (!target)
        goto out;
    out = (Pixel *)PyBytes_AsString(target);
    Py_BEGIN_ALLOW_THREADS
    done = run(&job, out);
    Py_END_ALLOW_THREADS
    if (!done) {
        Py_CLEAR(target);
        PyErr_NoMemory();
    }
out:
    PyBuffer_Release(&bytes);
    return target;
}

PyDoc_STRVAR(halve_doc,
             "halve(pixels, size, planes, /)\n--\n\n"
             "Return the picture with one colour for every two by two pixels, four bytes a pixel.\n\n"
             "Args:\n"
             "    pixels: The picture, four bytes a pixel: red, green, blue, and anything;\n"
             "        in one piece, or as a capsule of the Arrow C data interface.\n"
             "    size: Its width and height.\n"
             "    planes: Whether luma, blue and red difference are returned, in place of\n"
             "        red, green and blue.\n\n"
             "Raises:\n"
             "    ValueError: The arguments do not fit each other.\n"
             "    MemoryError: There is not enough for a few lines.\n");

static PyMethodDef methods[] = {{"halve", halve, METH_VARARGS, halve_doc}, {0}};

static struct PyModuleDef_Slot slots[] = {{0}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_chroma",
    .m_doc = "Chooses the colours of 4:2:0 in light.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__chroma(void)
{
    return PyModuleDef_Init(&definition);
}
