/* The limit: the least that does what the agent promises, without an agent around it.
 *
 *   limit apply FOLDER PORT COUNT SCRIPT   run a script's text so many times, each journalled and signalled
 *   limit spawn PROGRAM INPUT COUNT        start a program so many times with that file as its input, and wait
 *
 * What makes a result exactly one and truthful is kept: it is on disk that a script may have run before it is started,
 * and its result is on disk before it is sent. What is left out is everything else: documents, plans, time limits,
 * secrets, retries. No program that keeps those two promises for scripts that come as text can do much less. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void need(int well, const char *what)
{
    if (!well) {
        fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static void append(int journal, const char *text, int safe)
{
    need(write(journal, text, strlen(text)) == (ssize_t)strlen(text), "the journal");
    if (safe)
        need(fdatasync(journal) == 0, "the journal");
}

/* Start a program, wait for its end and return its exit code. posix_spawn does not copy our page tables, as fork does. */
static int run(const char *program, const char *input, const char *out, const char *err)
{
    posix_spawn_file_actions_t files;
    char *const argv[] = {(char *)program, NULL};
    pid_t process;
    int status;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, input, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    need((errno = posix_spawn(&process, program, &files, NULL, argv, environ)) == 0, program);
    posix_spawn_file_actions_destroy(&files);
    need(waitpid(process, &status, 0) == process, "waiting");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Put what is in a file into a JSON text: enough for what the benchmark's scripts print. */
static char *quoted(char *to, const char *end, const char *path)
{
    char got[4096];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, got, sizeof got);

    need(size >= 0, path);
    close(file);
    for (ssize_t i = 0; i < size && to < end - 2; i++) {
        if (got[i] == '\n' || got[i] == '"' || got[i] == '\\')
            *to++ = '\\';
        *to++ = got[i] == '\n' ? 'n' : got[i];
    }
    return to;
}

static int connected(int port)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    int one = 1, heat = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(heat >= 0 && connect(heat, (struct sockaddr *)&server, sizeof server) == 0, "the server");
    setsockopt(heat, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return heat;
}

static void signalled(int heat, int number, const char *result)
{
    char request[20000], answer[4096];
    int size = snprintf(request, sizeof request,
                        "POST /signal/%d HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n%s", number, strlen(result), result);

    need(write(heat, request, (size_t)size) == size, "sending");
    ssize_t got = read(heat, answer, sizeof answer - 1); /* it answers in one piece */
    need(got > 0, "the answer");
    answer[got] = '\0';
    if (strncmp(answer, "HTTP/1.1 200", 12) != 0 || strstr(answer, "\r\n\r\n") == NULL) {
        fprintf(stderr, "limit: the server answered %.40s\n", answer);
        exit(1);
    }
}

static void apply(int number, int journal, int heat, const char *script)
{
    char path[64], out[64], err[64], line[20000], result[10000];
    const char *end = result + sizeof result - 200;

    snprintf(path, sizeof path, "script/%d", number);
    snprintf(out, sizeof out, "out/%d", number);
    snprintf(err, sizeof err, "err/%d", number);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    need(file >= 0 && write(file, script, strlen(script)) == (ssize_t)strlen(script) && close(file) == 0, path);

    snprintf(line, sizeof line, "%d running\n", number);
    append(journal, line, 1);
    int code = run(path, "/dev/null", out, err);

    char *to = stpcpy(result, "{\"deploy_stdout\": \"");
    to = stpcpy(quoted(to, end, out), "\", \"deploy_stderr\": \"");
    to = quoted(to, end, err);
    sprintf(to, "\", \"deploy_status_code\": %d}", code);
    snprintf(line, sizeof line, "%d finished %s\n", number, result);
    append(journal, line, 1);

    signalled(heat, number, result);
    snprintf(line, sizeof line, "%d signalled\n", number);
    append(journal, line, 0); /* if this is lost, the result is sent again, which Heat drops */
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "apply") == 0) {
        need(chdir(argv[2]) == 0, argv[2]);
        for (const char *const *folder = (const char *const[]){"script", "out", "err", NULL}; *folder; folder++)
            need(mkdir(*folder, 0700) == 0, *folder);
        int journal = open("journal", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        need(journal >= 0, "the journal");
        int heat = connected(atoi(argv[3]));
        for (int number = 0; number < atoi(argv[4]); number++)
            apply(number, journal, heat, argv[5]);
        return 0;
    }
    if (argc == 5 && strcmp(argv[1], "spawn") == 0) {
        for (int number = 0; number < atoi(argv[4]); number++)
            need(run(argv[2], argv[3], "/dev/null", "/dev/null") == 0, "it failed");
        return 0;
    }
    fprintf(stderr, "usage: limit apply FOLDER PORT COUNT SCRIPT | limit spawn PROGRAM INPUT COUNT\n");
    return 2;
}
