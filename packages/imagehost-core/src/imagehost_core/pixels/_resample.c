/* Reduces a picture in linear light: what `floats.py` does with Pillow, in a quarter of the time.
 *
 * The lines of a picture pass through it once, from the top. A block of them is turned into light
 * (and averaged in cells, where the reduction is large), the lines of the block are filtered across,
 * and as soon as there are all lines that a row of the target is made of, they are filtered down and
 * turned back into levels. So the memory is that of a few lines.
 *
 * A pixel is four floats: red, green, blue, and alpha or nothing. The four lines of a block lie side
 * by side, pixel by pixel, which makes 16 floats that a processor works on at once. No result depends
 * on how many it takes: every sum is made in the same order, without fused operations, so all
 * processors of a kind make the same bytes.
 *
 * It is for compilers that have vectors as a type: GCC and Clang.
 */

#include "_image.h"

#include <math.h>
#include <stdlib.h>

enum {
    LINES = 4,               /* of a block */
    BLOCK = CHANNELS * LINES /* floats that are worked on at once */
};

#define REACH 2         /* of the filter, in pixels of the target to each side */
#define LIGHT_MAX 65535 /* light.LIGHT_MAX */

typedef float Half __attribute__((vector_size(BLOCK / 2 * sizeof(float)), aligned(sizeof(float))));

/* Which pixels of one axis make a pixel of the target, and how much of each. */
typedef struct {
    int taps;       /* how many, the same for all */
    int *first;     /* by pixel of the target: the first of them */
    float *weights; /* by pixel of the target: `taps` numbers, together 1 */
} Filter;

/* What is to be done, and the memory for it. Units are pixels, where nothing else is said. */
typedef struct {
    const uint8_t *pixels; /* `height` lines of `width`, CHANNELS bytes each */
    int width, height;
    int cell_width, cell_height; /* of what one average is made of */
    int columns, lines;          /* of the averaged picture, in cells */
    int target_width, target_height;
    int alpha;
    const float *to_light;     /* by level */
    const uint8_t *from_light; /* by light, cut to an integer */
    Filter across, down;
    float *block;      /* `columns` times BLOCK floats */
    float *ring;       /* `ring_lines` of `ring_width` floats, filtered across */
    const float **tap; /* the lines of the ring that the row at hand is made of */
    float *row;        /* `ring_width` floats: the row at hand, filtered down */
    int *light;        /* the same, cut to integers */
    int ring_lines, ring_width;
} Job;

/* Catmull-Rom's cubic: R. Keys, Cubic convolution interpolation for digital image processing, 1981,
 * with a = -1/2. */
static double
cubic(double x)
{
    x = fabs(x);
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < REACH ? ((2.5 - 0.5 * x) * x - 4) * x + 2 : 0;
}

/* Makes the filter that brings a stretch of `size` pixels to `count`; false where memory is short. */
static int
make_filter(Filter *filter, int size, double from, double to, int count)
{
    double scale = (to - from) / count, width = scale > 1 ? scale : 1;
    double taps = ceil(2 * REACH * width) + 1;

    filter->taps = taps < size ? (int)taps : size;
    filter->first = malloc((size_t)count * sizeof(int));
    filter->weights = malloc((size_t)count * filter->taps * sizeof(float));
    if (!filter->first || !filter->weights)
        return 0;
    for (int i = 0; i < count; i++) {
        double centre = from + (i + 0.5) * scale, start = floor(centre - REACH * width + 0.5), sum = 0;
        float *weights = filter->weights + (size_t)i * filter->taps;
        int first = start > 0 ? (int)start : 0;

        first = first + filter->taps <= size ? first : size - filter->taps;
        for (int k = 0; k < filter->taps; k++)
            sum += cubic((first + k + 0.5 - centre) / width);
        for (int k = 0; k < filter->taps; k++)
            weights[k] = (float)(cubic((first + k + 0.5 - centre) / width) / sum);
        filter->first[i] = first;
    }
    return 1;
}

static float *
ring_line(const Job *job, int line)
{
    return job->ring + (size_t)(line % job->ring_lines) * job->ring_width;
}

/* Turns a line of cells into light, each the average of its pixels; times alpha, where there is one. */
INLINE void
light_cells(const Job *job, int line, float *out, int alpha)
{
    const float *table = job->to_light;
    int top = line * job->cell_height, bottom = top + job->cell_height;

    bottom = bottom < job->height ? bottom : job->height;
    for (int x = 0; x < job->columns; x++, out += BLOCK) {
        int left = x * job->cell_width, right = left + job->cell_width;
        float red = 0, green = 0, blue = 0, opacity = 0, share;

        right = right < job->width ? right : job->width;
        for (int y = top; y < bottom; y++) {
            const uint8_t *pixel = job->pixels + ((size_t)y * job->width + left) * CHANNELS;
            const uint8_t *end = pixel + (size_t)(right - left) * CHANNELS;

            for (; pixel < end; pixel += CHANNELS) {
                float weight = alpha ? pixel[3] : 1;

                red += table[pixel[0]] * weight;
                green += table[pixel[1]] * weight;
                blue += table[pixel[2]] * weight;
                opacity += weight;
            }
        }
        share = 1.0f / ((float)(right - left) * (float)(bottom - top));
        out[0] = red * share;
        out[1] = green * share;
        out[2] = blue * share;
        out[3] = opacity * share;
    }
}

/* The same for cells of one opaque pixel, which most pictures are made of. */
static void
light_pixels(const Job *job, int line, float *out)
{
    const float *table = job->to_light;
    const uint8_t *pixel = job->pixels + (size_t)line * job->width * CHANNELS;

    for (int x = 0; x < job->columns; x++, pixel += CHANNELS, out += BLOCK) {
        out[0] = table[pixel[0]];
        out[1] = table[pixel[1]];
        out[2] = table[pixel[2]];
        out[3] = 1;
    }
}

/* Fills the block with lines from `line` on. Below the last there is only what no filter asks for. */
static void
fill_block(const Job *job, int line)
{
    for (int i = 0; i < LINES; i++, line++) {
        float *out = job->block + i * CHANNELS;

        if (line >= job->lines)
            line = job->lines - 1;
        if (job->alpha)
            light_cells(job, line, out, 1);
        else if (job->cell_width * job->cell_height > 1)
            light_cells(job, line, out, 0);
        else
            light_pixels(job, line, out);
    }
}

/* Filters the lines of the block across, into those of the ring from `line` on. */
WIDE static void
filter_across(const Job *job, int line)
{
    int taps = job->across.taps;
    float *out[LINES];

    for (int i = 0; i < LINES; i++)
        out[i] = ring_line(job, line + i);
    for (int x = 0; x < job->target_width; x++) {
        const Half *pixel = (const Half *)(job->block + (size_t)job->across.first[x] * BLOCK);
        const float *weights = job->across.weights + (size_t)x * taps;
        Half upper = {0}, lower = {0};

        for (int k = 0; k < taps; k++) {
            upper += weights[k] * pixel[2 * k];
            lower += weights[k] * pixel[2 * k + 1];
        }
        for (int c = 0; c < CHANNELS; c++) {
            out[0][x * CHANNELS + c] = upper[c];
            out[1][x * CHANNELS + c] = upper[CHANNELS + c];
            out[2][x * CHANNELS + c] = lower[c];
            out[3][x * CHANNELS + c] = lower[CHANNELS + c];
        }
    }
}

/* Filters lines of the ring down, into the row at hand. */
WIDE static void
filter_down(const Job *job, int y)
{
    int taps = job->down.taps;
    const float *weights = job->down.weights + (size_t)y * taps;

    for (int k = 0; k < taps; k++)
        job->tap[k] = ring_line(job, job->down.first[y] + k);
    for (int x = 0; x < job->ring_width; x += BLOCK) {
        Half left = {0}, right = {0};

        for (int k = 0; k < taps; k++) {
            const Half *floats = (const Half *)(job->tap[k] + x);

            left += weights[k] * floats[0];
            right += weights[k] * floats[1];
        }
        *(Half *)(job->row + x) = left;
        *(Half *)(job->row + x + BLOCK / 2) = right;
    }
}

/* Cuts light to integers within the table; to 0 what is no number. */
WIDE static void
cut(const float *restrict row, int *restrict light, int count)
{
    for (int i = 0; i < count; i++) {
        float value = row[i] > 0 ? row[i] : 0;

        light[i] = (int)(value < LIGHT_MAX ? value : LIGHT_MAX);
    }
}

/* Takes the alpha out of the row at hand again: where nothing is seen, there is no light. */
static void
divide(const Job *job, uint8_t *out)
{
    float *pixel = job->row;

    for (int x = 0; x < job->target_width; x++, pixel += CHANNELS, out += CHANNELS) {
        float opacity = pixel[3] > 0 ? pixel[3] : 0;

        for (int c = 0; c < 3; c++)
            pixel[c] = opacity > 0 ? pixel[c] / opacity : 0;
        out[3] = (uint8_t)(opacity < 255 ? opacity + 0.5f : 255);
    }
}

/* Writes the row at hand as levels. */
static void
write_levels(const Job *job, uint8_t *out)
{
    const uint8_t *table = job->from_light;
    const int *light = job->light;

    if (job->alpha)
        divide(job, out);
    cut(job->row, job->light, job->target_width * CHANNELS);
    for (int x = 0; x < job->target_width; x++, light += CHANNELS, out += CHANNELS) {
        out[0] = table[light[0]];
        out[1] = table[light[1]];
        out[2] = table[light[2]];
        if (!job->alpha)
            out[3] = 255;
    }
}

/* Reduces the picture; false where memory is short. */
static int
run(Job *job, const double box[4], uint8_t *target)
{
    int line;

    if (!make_filter(&job->across, job->columns, box[0], box[2], job->target_width) ||
        !make_filter(&job->down, job->lines, box[1], box[3], job->target_height))
        return 0;
    job->ring_lines = job->down.taps + LINES - 1;
    job->ring_width = (job->target_width + LINES - 1) / LINES * BLOCK;
    job->block = malloc((size_t)job->columns * BLOCK * sizeof(float));
    job->ring = calloc((size_t)job->ring_lines * job->ring_width, sizeof(float));
    job->tap = malloc((size_t)job->down.taps * sizeof(float *));
    job->row = malloc((size_t)job->ring_width * sizeof(float));
    job->light = malloc((size_t)job->ring_width * sizeof(int));
    if (!job->block || !job->ring || !job->tap || !job->row || !job->light)
        return 0;
    line = job->down.first[0];
    for (int y = 0; y < job->target_height; y++) {
        for (; line < job->down.first[y] + job->down.taps; line += LINES) {
            fill_block(job, line);
            filter_across(job, line);
        }
        filter_down(job, y);
        write_levels(job, target + (size_t)y * job->target_width * CHANNELS);
    }
    return 1;
}

static void
clear(Job *job)
{
    free(job->across.first);
    free(job->across.weights);
    free(job->down.first);
    free(job->down.weights);
    free(job->block);
    free(job->ring);
    free(job->tap);
    free(job->row);
    free(job->light);
}

static int
is_stretch(double from, double to, int size)
{
    return from >= 0 && from < to && to <= size;
}

/* Says in `job` how many cells there are; false where the numbers do not fit each other. */
static int
fits(Job *job, int64_t bytes, const double box[4], const Py_buffer *to_light, const Py_buffer *from_light)
{
    if (!is_side(job->width) || !is_side(job->height) || !is_side(job->target_width) ||
        !is_side(job->target_height) || !is_side(job->cell_width) || !is_side(job->cell_height))
        return 0;
    job->columns = (job->width + job->cell_width - 1) / job->cell_width;
    job->lines = (job->height + job->cell_height - 1) / job->cell_height;
    return bytes == (int64_t)job->width * job->height * CHANNELS &&
           to_light->len == 256 * sizeof(float) && from_light->len == LIGHT_MAX + 1 &&
           is_stretch(box[0], box[2], job->columns) && is_stretch(box[1], box[3], job->lines);
}

static PyObject *
reduce(PyObject *module, PyObject *args)
{
    Job job = {0};
    double box[4];
    Py_buffer bytes = {0}, to_light, from_light;
    PyObject *pixels, *target = NULL;
    uint8_t *levels;
    int64_t length;
    int done;

    (void)module;
    if (!PyArg_ParseTuple(args, "O(ii)(ii)(dddd)(ii)py*y*:reduce", &pixels, &job.width, &job.height,
                          &job.target_width, &job.target_height, &box[0], &box[1], &box[2], &box[3],
                          &job.cell_width, &job.cell_height, &job.alpha, &to_light, &from_light))
        return NULL;
    job.to_light = to_light.buf;
    job.from_light = from_light.buf;
    length = find_pixels(pixels, &bytes, &job.pixels);
    if (PyErr_Occurred())
        goto out;
    if (!fits(&job, length, box, &to_light, &from_light)) {
        PyErr_SetString(PyExc_ValueError, "expected sizes, a box and tables that fit each other");
        goto out;
    }
    target = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)job.target_width * job.target_height * CHANNELS);
    if (!target)
        goto out;
    levels = (uint8_t *)PyBytes_AsString(target);
    Py_BEGIN_ALLOW_THREADS
    done = run(&job, box, levels);
    clear(&job);
    Py_END_ALLOW_THREADS
    if (!done) {
        Py_CLEAR(target);
        PyErr_NoMemory();
    }
out:
    PyBuffer_Release(&bytes);
    PyBuffer_Release(&to_light);
    PyBuffer_Release(&from_light);
    return target;
}

PyDoc_STRVAR(reduce_doc,
             "reduce(pixels, size, target, box, cell, alpha, to_light, from_light, /)\n--\n\n"
             "Return a box of a picture at a smaller size, four bytes a pixel.\n\n"
             "Args:\n"
             "    pixels: The picture, four bytes a pixel: red, green, blue, and alpha or anything;\n"
             "        in one piece, or as a capsule of the Arrow C data interface.\n"
             "    size: Its width and height.\n"
             "    target: The width and height that the box is brought to.\n"
             "    box: Left, top, right and bottom, in cells.\n"
             "    cell: The width and height of the averages that go first, in pixels.\n"
             "    alpha: Whether the fourth byte is one.\n"
             "    to_light: 256 floats, the light of each level.\n"
             "    from_light: 65,536 bytes, the level of each light.\n\n"
             "Raises:\n"
             "    ValueError: The arguments do not fit each other.\n"
             "    MemoryError: There is not enough for a few lines.\n");

static PyMethodDef methods[] = {{"reduce", reduce, METH_VARARGS, reduce_doc}, {0}};

static struct PyModuleDef_Slot slots[] = {{0}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_resample",
    .m_doc = "Reduces pictures in linear light.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__resample(void)
{
    return PyModuleDef_Init(&definition);
}
