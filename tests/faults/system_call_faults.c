/* A library for LD_PRELOAD that lets system calls on files below a directory fail.
 *
 * The tests control it through a file that is mapped into all processes, whose path is the variable
 * SYSTEM_CALL_FAULTS: see `tests/faults/system_calls.py`, which has the same structure. It counts the calls
 * of all threads of one process, and lets the call of a given number fail, and those after it if the fault
 * is persistent. The functions are those of the C library that CPython and SQLite call.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, SYNCFS, RENAME, UNLINK, MKDIR, TRUNCATE };

struct control {
    _Atomic int pid; /* the process whose calls are counted; 0: none */
    int error;       /* errno of a call that fails */
    int persistent;  /* whether the calls after it fail too */
    int kinds;       /* a bit for each kind that is counted */
    long when;       /* the number of the call that fails, from 1; 0: none */
    _Atomic long calls, failed;
    _Atomic long syncs_repeated; /* syncs of a descriptor whose sync has failed, without a write between */
    char directory[1024];
    char first[1024]; /* the kind and the path of the first call that has failed */
};

#define MAX_DESCRIPTORS 4096
static const char *const names[] = {"open", "read", "write", "sync", "syncfs",
                                    "rename", "unlink", "mkdir", "truncate"};
static struct control *control;
static pid_t pid;
static _Atomic char sync_failed[MAX_DESCRIPTORS];

static void set_pid(void) { pid = getpid(); }

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("SYSTEM_CALL_FAULTS");
    int descriptor = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    set_pid();
    pthread_atfork(NULL, NULL, set_pid);
    control = map == MAP_FAILED ? NULL : map;
}

static int counts(void) { return control && atomic_load(&control->pid) == pid; }

static const char *path_of(int descriptor, char *buffer, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, size - 1);
    buffer[length < 0 ? 0 : length] = 0;
    return buffer;
}

static const char *join(int directory, const char *path, char *buffer, size_t size)
{
    if (path[0] == '/' || directory == AT_FDCWD)
        return path;
    path_of(directory, buffer, size);
    size_t length = strlen(buffer);
    snprintf(buffer + length, size - length, "/%s", path);
    return buffer;
}

/* Count a call; return whether it fails, with errno set. */
static int fails(enum kind kind, const char *path)
{
    size_t length = strlen(control->directory);
    if (!(control->kinds & 1 << kind) || strncmp(path, control->directory, length) != 0)
        return 0;
    long number = atomic_fetch_add(&control->calls, 1) + 1;
    if (control->when == 0 || number < control->when || (number > control->when && !control->persistent))
        return 0;
    if (atomic_fetch_add(&control->failed, 1) == 0)
        snprintf(control->first, sizeof control->first, "%s %s", names[kind], path + length);
    errno = control->error;
    return 1;
}

static int path_fails(enum kind kind, int directory, const char *path)
{
    char buffer[4096];
    return counts() && fails(kind, join(directory, path, buffer, sizeof buffer));
}

static int descriptor_fails(enum kind kind, int descriptor)
{
    char buffer[4096];
    int known = descriptor >= 0 && descriptor < MAX_DESCRIPTORS;
    if (!counts())
        return 0;
    const char *path = path_of(descriptor, buffer, sizeof buffer);
    /* SQLite writes again what it syncs again, but not always in between. */
    int is_sqlite = strstr(path, "/imagehost.sqlite3") != NULL;
    if (kind == SYNC && known && !is_sqlite && atomic_load(&sync_failed[descriptor]))
        atomic_fetch_add(&control->syncs_repeated, 1);
    if (kind == WRITE && known)
        atomic_store(&sync_failed[descriptor], 0);
    int failed = fails(kind, path);
    if (kind == SYNC && known && failed)
        atomic_store(&sync_failed[descriptor], 1);
    return failed;
}

#define REAL(result, name, ...)                                  \
    static result (*real)(__VA_ARGS__);                          \
    if (!real)                                                   \
    real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define ON_DESCRIPTOR(kind, result, name, parameters, ...)       \
    result name parameters                                       \
    {                                                            \
        static result(*real) parameters;                         \
        if (!real)                                               \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
        return descriptor_fails(kind, descriptor) ? -1 : real(__VA_ARGS__); \
    }

#define ON_PATH(kind, directory, result, name, parameters, ...)  \
    result name parameters                                       \
    {                                                            \
        static result(*real) parameters;                         \
        if (!real)                                               \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
        return path_fails(kind, directory, path) ? -1 : real(__VA_ARGS__); \
    }

#define MODE(flags)                                              \
    mode_t mode = 0;                                             \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list arguments;                                       \
        va_start(arguments, flags);                              \
        mode = va_arg(arguments, mode_t);                        \
        va_end(arguments);                                       \
    }

#define OPEN_FUNCTION(name)                                      \
    int name(const char *path, int flags, ...)                   \
    {                                                            \
        REAL(int, name, const char *, int, ...);                 \
        MODE(flags)                                              \
        return path_fails(OPEN, AT_FDCWD, path) ? -1 : real(path, flags, mode); \
    }
#define OPENAT_FUNCTION(name)                                    \
    int name(int directory, const char *path, int flags, ...)    \
    {                                                            \
        REAL(int, name, int, const char *, int, ...);            \
        MODE(flags)                                              \
        return path_fails(OPEN, directory, path) ? -1 : real(directory, path, flags, mode); \
    }

OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)

DIR *opendir(const char *path)
{
    REAL(DIR *, opendir, const char *);
    return path_fails(OPEN, AT_FDCWD, path) ? NULL : real(path);
}

ON_DESCRIPTOR(READ, ssize_t, read, (int descriptor, void *data, size_t size), descriptor, data, size)
ON_DESCRIPTOR(READ, ssize_t, pread, (int descriptor, void *data, size_t size, off_t at), descriptor, data, size, at)
ON_DESCRIPTOR(READ, ssize_t, pread64, (int descriptor, void *data, size_t size, off64_t at), descriptor, data, size, at)
ON_DESCRIPTOR(WRITE, ssize_t, write, (int descriptor, const void *data, size_t size), descriptor, data, size)
ON_DESCRIPTOR(WRITE, ssize_t, pwrite, (int descriptor, const void *data, size_t size, off_t at), descriptor, data, size, at)
ON_DESCRIPTOR(WRITE, ssize_t, pwrite64, (int descriptor, const void *data, size_t size, off64_t at), descriptor, data, size, at)
ON_DESCRIPTOR(WRITE, ssize_t, writev, (int descriptor, const struct iovec *data, int count), descriptor, data, count)
ON_DESCRIPTOR(WRITE, ssize_t, pwritev, (int descriptor, const struct iovec *data, int count, off_t at), descriptor, data, count, at)
ON_DESCRIPTOR(WRITE, ssize_t, pwritev64, (int descriptor, const struct iovec *data, int count, off64_t at), descriptor, data, count, at)
ON_DESCRIPTOR(WRITE, ssize_t, sendfile, (int descriptor, int source, off_t *at, size_t size), descriptor, source, at, size)
ON_DESCRIPTOR(WRITE, ssize_t, sendfile64, (int descriptor, int source, off64_t *at, size_t size), descriptor, source, at, size)
ON_DESCRIPTOR(SYNC, int, fsync, (int descriptor), descriptor)
ON_DESCRIPTOR(SYNC, int, fdatasync, (int descriptor), descriptor)
ON_DESCRIPTOR(SYNCFS, int, syncfs, (int descriptor), descriptor)
ON_DESCRIPTOR(TRUNCATE, int, ftruncate, (int descriptor, off_t size), descriptor, size)
ON_DESCRIPTOR(TRUNCATE, int, ftruncate64, (int descriptor, off64_t size), descriptor, size)
ON_PATH(TRUNCATE, AT_FDCWD, int, truncate, (const char *path, off_t size), path, size)
ON_PATH(TRUNCATE, AT_FDCWD, int, truncate64, (const char *path, off64_t size), path, size)
ON_PATH(RENAME, AT_FDCWD, int, rename, (const char *path, const char *target), path, target)
ON_PATH(RENAME, from, int, renameat, (int from, const char *path, int to, const char *target), from, path, to, target)
ON_PATH(RENAME, from, int, renameat2, (int from, const char *path, int to, const char *target, unsigned flags), from, path, to, target, flags)
ON_PATH(RENAME, AT_FDCWD, int, link, (const char *path, const char *target), path, target)
ON_PATH(RENAME, from, int, linkat, (int from, const char *path, int to, const char *target, int flags), from, path, to, target, flags)
ON_PATH(UNLINK, AT_FDCWD, int, unlink, (const char *path), path)
ON_PATH(UNLINK, directory, int, unlinkat, (int directory, const char *path, int flags), directory, path, flags)
ON_PATH(UNLINK, AT_FDCWD, int, rmdir, (const char *path), path)
ON_PATH(MKDIR, AT_FDCWD, int, mkdir, (const char *path, mode_t mode), path, mode)
ON_PATH(MKDIR, directory, int, mkdirat, (int directory, const char *path, mode_t mode), directory, path, mode)

int close(int descriptor)
{
    REAL(int, close, int);
    if (descriptor >= 0 && descriptor < MAX_DESCRIPTORS)
        atomic_store(&sync_failed[descriptor], 0);
    return real(descriptor);
}
