/* Loaded before libc (LD_PRELOAD): makes chosen system calls fail on files below one directory, as a broken or full disk would.
 *
 * FAULTS_CONTROL names a file that the test maps too: what it writes there is in force at once. FAULTS_ROOT is the directory.
 * Reads that go through io_uring don't pass here, nor do mapped ones: use `--backend pread` to have reads fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* tests/harness/faults.py has the same layout and the same numbers. */
enum { WRITE = 1, SYNC = 2, DATASYNC = 4, RENAME = 8, READ = 16, ALLOCATE = 32, CREATE = 64, UNLINK = 128 };
enum { FAIL = 1, PRETEND = 2, SHORT = 3, DELAY = 4 };

struct control {
    _Atomic uint32_t armed; /* FAIL, PRETEND (success that does nothing), SHORT (half of a write, then failure),
                               DELAY (success, later), 0: off */
    uint32_t error;
    uint32_t calls;
    uint32_t delay_ms;
    _Atomic int64_t before; /* calls that match and still succeed */
    _Atomic int64_t times;  /* calls that fail then */
    _Atomic int64_t hits;
    _Atomic int64_t seen;
    char match[96];  /* a part of the path; empty: any */
    char where[256]; /* the first path that was hit */
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_len;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL"), *below = getenv("FAULTS_ROOT");
    if (!path || !below || !realpath(below, root)) return;
    root_len = strlen(root);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) control = map;
}

/* What becomes of this call: 0, or one of FAIL, PRETEND, SHORT. One that is delayed has waited by then. */
static int fate(uint32_t call, const char *path) {
    if (strncmp(path, root, root_len) || (control->match[0] && !strstr(path + root_len, control->match))) return 0;
    atomic_fetch_add(&control->seen, 1);
    if (atomic_fetch_sub(&control->before, 1) > 0) return 0;
    if (atomic_fetch_sub(&control->times, 1) <= 0) return 0;
    if (atomic_fetch_add(&control->hits, 1) == 0) snprintf(control->where, sizeof control->where, "%s", path + root_len);
    int how = atomic_load(&control->armed);
    if (how == DELAY) {
        usleep(control->delay_ms * 1000);
        return 0;
    }
    errno = control->error;
    return how;
}

static int active(uint32_t call) { return control && atomic_load(&control->armed) && (control->calls & call); }

static int of_fd(uint32_t call, int fd) {
    if (!active(call)) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int before = errno;
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = before;
    if (n <= 0) return 0;
    path[n] = 0;
    return fate(call, path);
}

static int of_path(uint32_t call, const char *path) {
    if (!active(call) || !path) return 0;
    char whole[PATH_MAX], parent[PATH_MAX];
    if (path[0] == '/') return fate(call, path);
    int before = errno;
    char *here = getcwd(parent, sizeof parent);
    snprintf(whole, sizeof whole, "%s/%s", here ? here : "", path);
    errno = before;
    return fate(call, whole);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* Looked up once for each function; a race looks it up twice. */
#define CALL(name, ...)                                        \
    ({                                                         \
        static __typeof__(&name) real;                         \
        if (!real) real = REAL(name);                          \
        real(__VA_ARGS__);                                     \
    })

#define WRITES(call, size, shorter)                            \
    switch (of_fd(WRITE, fd)) {                                \
    case FAIL: return -1;                                      \
    case PRETEND: return (ssize_t)(size);                      \
    case SHORT: return (size) > 8192 ? (shorter) : -1;         \
    default: return (call);                                    \
    }

ssize_t write(int fd, const void *data, size_t n) { WRITES(CALL(write, fd, data, n), n, CALL(write, fd, data, n / 8192 * 4096)) }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    WRITES(CALL(pwrite, fd, data, n, at), n, CALL(pwrite, fd, data, n / 8192 * 4096, at))
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    WRITES(CALL(pwrite64, fd, data, n, at), n, CALL(pwrite64, fd, data, n / 8192 * 4096, at))
}

#define READS(call) return of_fd(READ, fd) ? -1 : (call)
ssize_t pread(int fd, void *data, size_t n, off_t at) { READS(CALL(pread, fd, data, n, at)); }
ssize_t pread64(int fd, void *data, size_t n, off64_t at) { READS(CALL(pread64, fd, data, n, at)); }
ssize_t read(int fd, void *data, size_t n) { READS(CALL(read, fd, data, n)); }

#define WHOLE(fate, call)                                      \
    switch (fate) {                                            \
    case 0: return (call);                                     \
    case PRETEND: return 0;                                    \
    default: return -1;                                        \
    }

int fsync(int fd) { WHOLE(of_fd(SYNC, fd), CALL(fsync, fd)) }
int fdatasync(int fd) { WHOLE(of_fd(DATASYNC, fd), CALL(fdatasync, fd)) }
int rename(const char *from, const char *to) { WHOLE(of_path(RENAME, to), CALL(rename, from, to)) }
int unlink(const char *path) { WHOLE(of_path(UNLINK, path), CALL(unlink, path)) }
int fallocate(int fd, int mode, off_t at, off_t n) { WHOLE(of_fd(ALLOCATE, fd), CALL(fallocate, fd, mode, at, n)) }
int fallocate64(int fd, int mode, off64_t at, off64_t n) { WHOLE(of_fd(ALLOCATE, fd), CALL(fallocate64, fd, mode, at, n)) }

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        __builtin_va_list more;
        __builtin_va_start(more, flags);
        mode = __builtin_va_arg(more, mode_t);
        __builtin_va_end(more);
    }
    if ((flags & O_CREAT) && of_path(CREATE, path)) return -1;
    return CALL(open64, path, flags, mode);
}
