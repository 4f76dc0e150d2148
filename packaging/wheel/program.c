/* The wheel's program: loads the package's library, which holds the program's code beside the engine's, and runs it there. The engine is in
   the wheel once (docs/adr/0082-one-library-in-the-wheel.md).

   The library is Python's extension too, and asks for names of Python's as it is loaded. The program uses none of them. `python_names.h`, which
   packaging/build.py writes from the library's own list, has each as NAME(x). */

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void no_python(void) {
    fputs("ramlet: a function of Python's was called in the program\n", stderr);
    abort();
}

#define NAME(x) extern void x(void) __attribute__((alias("no_python"), visibility("default")));
#include "python_names.h"

#define LIBRARY "/_ramlet.abi3.so"

int main(void) {
    /* As the start of any Rust program does: a connection that was closed is an error to be told, not a signal. */
    signal(SIGPIPE, SIG_IGN);
    /* This file is PACKAGE/bin/ramlet, wherever the links that lead to it are. */
    char path[4096 + sizeof LIBRARY];
    ssize_t length = readlink("/proc/self/exe", path, 4096);
    if (length < 0 || length == 4096) {
        perror("ramlet: /proc/self/exe");
        return 1;
    }
    path[length] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = 0;
    }
    strcat(path, LIBRARY);
    void *library = dlopen(path, RTLD_NOW);
    void (*run)(void) = library ? (void (*)(void))dlsym(library, "ramlet_main") : NULL;
    if (!run) {
        fprintf(stderr, "ramlet: %s\n", dlerror());
        return 1;
    }
    run();
    return 0;
}
