/* A TCP relay that behaves like a long line before one broker.
 *
 * relay HOST PORT BROKER_HOST BROKER_PORT DELAY_US JITTER_US BYTES_PER_S WINDOW_BYTES
 *
 * Each byte is delivered DELAY_US after it arrived, in each direction, later by up to JITTER_US at
 * random, never out of order. BYTES_PER_S (0: no limit) is the capacity of the line in each
 * direction, shared by all connections. WINDOW_BYTES bounds what one connection has on its way in
 * one direction: a byte counts until its acknowledgement would be back, so for a whole round trip.
 * That is what the socket buffers of a kernel do. Nothing is lost: loss of packets is no part of it.
 *
 * Orders come as lines on standard input, each answered by one line:
 *   stall MS    deliver nothing for so long
 *   cut         reset all connections, with what is on its way
 *   count       bytes to the broker, bytes from it, open connections
 * It ends with its standard input. One thread; scans all connections at each wake-up.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { PIECES = 1 << 14, READ_BYTES = 256 << 10, SHAPED_BYTES = 32 << 10, MOST = 512 };
/* More than this may not wait for a shaped line: then the sender waits, as it does for a router. */
static const int64_t QUEUE_NS = 10 * 1000 * 1000;
static const int64_t NEVER = INT64_MAX;

typedef struct {
    uint64_t end; /* position in the stream behind this piece */
    int64_t due, released;
} Piece;

typedef struct {
    uint8_t *ring;
    Piece *pieces;
    uint64_t read, sent, acknowledged; /* positions in the stream */
    uint32_t first, next;              /* pieces that are not acknowledged yet */
    uint32_t unsent;                   /* the first piece that is not sent whole */
    int64_t last_due;
    bool eof, shut, blocked;
} Way;

typedef struct {
    int fd[2];         /* client, broker */
    uint32_t asked[2]; /* the events that epoll watches */
    bool connecting, broken;
    Way way[2]; /* to the broker, from it */
} Pair;

typedef enum { OPEN, ENDED, BROKEN } State;

static Pair *pairs[MOST];
static int count, poller;
static int64_t delay_ns, jitter_ns, stalled_until, free_at[2];
static uint64_t rate, window, carried[2];
static struct sockaddr_in broker;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &found.sin_addr) != 1) {
        fprintf(stderr, "not an address: %s\n", host);
        exit(1);
    }
    return found;
}

static void *pages(size_t size) {
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        fail("mmap");
    madvise(found, size, MADV_HUGEPAGE);
    return found;
}

static void watch(Pair *pair, int side, uint32_t events) {
    if (pair->asked[side] == events)
        return;
    struct epoll_event wanted = {.events = events, .data.ptr = pair};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, pair->fd[side], &wanted) < 0)
        fail("epoll_ctl");
    pair->asked[side] = events;
}

static void drop(int at, bool reset) {
    Pair *pair = pairs[at];
    for (int side = 0; side < 2; side++) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        if (reset)
            setsockopt(pair->fd[side], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(pair->fd[side]);
        munmap(pair->way[side].ring, window);
        munmap(pair->way[side].pieces, PIECES * sizeof(Piece));
    }
    free(pair);
    pairs[at] = pairs[--count];
}

static void take(int listener) {
    int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0)
        return;
    int other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool refused = other < 0 || (connect(other, (struct sockaddr *)&broker, sizeof broker) < 0 &&
                                 errno != EINPROGRESS);
    if (refused || count == MOST) {
        close(client);
        if (other >= 0)
            close(other);
        return;
    }
    Pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        fail("calloc");
    pair->fd[0] = client;
    pair->fd[1] = other;
    pair->connecting = true;
    for (int side = 0; side < 2; side++) {
        int yes = 1;
        setsockopt(pair->fd[side], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        pair->way[side].ring = pages(window);
        pair->way[side].pieces = pages(PIECES * sizeof(Piece));
        struct epoll_event wanted = {.events = 0, .data.ptr = pair};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, pair->fd[side], &wanted) < 0)
            fail("epoll_ctl");
    }
    pairs[count++] = pair;
}

/* Whether the way has room and the line is not behind; `wake` is when to look again. */
static bool may_read(Way *way, int direction, int64_t now, int64_t *wake) {
    if (way->eof || way->next - way->first >= PIECES || way->read - way->acknowledged >= window)
        return false;
    if (rate && free_at[direction] - now > QUEUE_NS) {
        if (free_at[direction] - QUEUE_NS < *wake)
            *wake = free_at[direction] - QUEUE_NS;
        return false;
    }
    return true;
}

/* Read once; false when the connection broke. */
static bool read_some(Pair *pair, int direction, int64_t now) {
    Way *way = &pair->way[direction];
    uint64_t at = way->read % window, room = window - (way->read - way->acknowledged);
    uint64_t most = rate ? SHAPED_BYTES : READ_BYTES;
    if (room > window - at)
        room = window - at;
    if (room > most)
        room = most;
    ssize_t got = recv(pair->fd[direction], way->ring + at, room, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
        way->eof = true;
        return true;
    }
    int64_t leaves = now;
    if (rate) {
        int64_t start = free_at[direction] > now ? free_at[direction] : now;
        leaves = free_at[direction] = start + (int64_t)((double)got * 1e9 / (double)rate);
    }
    int64_t due = leaves + delay_ns + (jitter_ns ? random() % jitter_ns : 0);
    if (due < way->last_due)
        due = way->last_due;
    way->last_due = due;
    way->read += (uint64_t)got;
    way->pieces[way->next++ % PIECES] =
        (Piece){.end = way->read, .due = due, .released = due + delay_ns};
    carried[direction] += (uint64_t)got;
    return true;
}

/* Deliver what is due; false when the connection broke. */
static bool deliver(Pair *pair, int direction, int64_t now, int64_t *wake) {
    Way *way = &pair->way[direction];
    int to = pair->fd[1 - direction];
    way->blocked = false;
    while (way->unsent != way->next && now >= stalled_until) {
        Piece *piece = &way->pieces[way->unsent % PIECES];
        if (piece->due > now)
            break;
        uint64_t end = piece->end, at = way->sent % window;
        for (uint32_t more = way->unsent + 1;
             more != way->next && way->pieces[more % PIECES].due <= now; more++)
            end = way->pieces[more % PIECES].end;
        uint64_t size = end - way->sent;
        if (size > window - at)
            size = window - at;
        ssize_t put = send(to, way->ring + at, size, MSG_NOSIGNAL);
        if (put < 0) {
            if (errno != EAGAIN && errno != EINTR)
                return false;
            way->blocked = true;
            break;
        }
        way->sent += (uint64_t)put;
        while (way->unsent != way->next && way->pieces[way->unsent % PIECES].end <= way->sent)
            way->unsent++;
    }
    while (way->first != way->unsent && way->pieces[way->first % PIECES].released <= now)
        way->acknowledged = way->pieces[way->first++ % PIECES].end;
    if (way->first == way->next) /* memory that the caches still hold */
        way->read = way->sent = way->acknowledged = 0;
    if (way->eof && way->unsent == way->next && !way->shut) {
        way->shut = true;
        shutdown(to, SHUT_WR);
    }
    int64_t next = NEVER;
    if (way->unsent != way->next && !way->blocked)
        next = way->pieces[way->unsent % PIECES].due;
    if (next != NEVER && next < stalled_until)
        next = stalled_until;
    bool is_full = way->next - way->first >= PIECES || way->read - way->acknowledged >= window;
    if (is_full && way->first != way->unsent && way->pieces[way->first % PIECES].released < next)
        next = way->pieces[way->first % PIECES].released;
    if (next < *wake)
        *wake = next;
    return true;
}

static bool obey(void) {
    static char line[256];
    static size_t length;
    ssize_t got = read(0, line + length, sizeof line - 1 - length);
    if (got <= 0)
        return false;
    length += (size_t)got;
    line[length] = 0;
    for (char *end; (end = strchr(line, '\n'));) {
        long number = 0;
        *end = 0;
        if (sscanf(line, "stall %ld", &number) == 1)
            stalled_until = now_ns() + number * 1000000LL;
        else if (!strcmp(line, "cut"))
            while (count)
                drop(count - 1, true);
        printf("%llu %llu %d\n", (unsigned long long)carried[0], (unsigned long long)carried[1],
               count);
        fflush(stdout);
        length -= (size_t)(end + 1 - line);
        memmove(line, end + 1, length + 1);
    }
    return length < sizeof line - 1;
}

static State serve(Pair *pair, int64_t *wake, uint32_t turn) {
    if (pair->broken)
        return BROKEN;
    if (pair->connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        getsockopt(pair->fd[1], SOL_SOCKET, SO_ERROR, &error, &size);
        if (error)
            return BROKEN;
        pair->connecting = getpeername(pair->fd[1], (struct sockaddr *)&peer, &length) < 0;
        if (pair->connecting) {
            watch(pair, 1, EPOLLOUT);
            return OPEN;
        }
    }
    int64_t now = now_ns();
    uint32_t events[2] = {0, 0};
    for (uint32_t number = 0; number < 2; number++) {
        int direction = (int)((number + turn) & 1);
        if (may_read(&pair->way[direction], direction, now, wake) &&
            !read_some(pair, direction, now))
            return BROKEN;
        if (!deliver(pair, direction, now, wake))
            return BROKEN;
        if (may_read(&pair->way[direction], direction, now, wake))
            events[direction] |= EPOLLIN;
        if (pair->way[direction].blocked)
            events[1 - direction] |= EPOLLOUT;
    }
    watch(pair, 0, events[0]);
    watch(pair, 1, events[1]);
    return pair->way[0].shut && pair->way[1].shut ? ENDED : OPEN;
}

int main(int argc, char **argv) {
    if (argc != 9) {
        fprintf(stderr, "relay HOST PORT BROKER_HOST BROKER_PORT DELAY_US JITTER_US BYTES_PER_S "
                        "WINDOW_BYTES\n");
        return 2;
    }
    struct sockaddr_in here = address(argv[1], argv[2]);
    broker = address(argv[3], argv[4]);
    delay_ns = atoll(argv[5]) * 1000;
    jitter_ns = atoll(argv[6]) * 1000;
    rate = strtoull(argv[7], NULL, 10);
    window = strtoull(argv[8], NULL, 10);
    poller = epoll_create1(EPOLL_CLOEXEC);
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 128) < 0)
        fail(argv[2]);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    int always[] = {0, listener, timer};
    for (int at = 0; at < 3; at++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &always[at]};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, always[at], &wanted) < 0)
            fail("epoll_ctl");
    }
    puts("ready");
    fflush(stdout);
    for (uint32_t turn = 0;; turn++) {
        int64_t wake = NEVER;
        /* From another one each time, so that all get their share of a shaped line. */
        for (int number = 0, all = count; number < all && count; number++) {
            int at = (int)((turn + (uint32_t)number) % (uint32_t)count);
            State state = serve(pairs[at], &wake, turn);
            if (state != OPEN) {
                drop(at, state == BROKEN);
                wake = 0;
            }
        }
        struct itimerspec next = {0};
        if (wake != NEVER) {
            if (wake < 1)
                wake = 1;
            next.it_value.tv_sec = wake / 1000000000LL;
            next.it_value.tv_nsec = wake % 1000000000LL;
        }
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &next, NULL);
        struct epoll_event found[64];
        int many = epoll_wait(poller, found, 64, -1);
        bool is_order = false;
        for (int at = 0; at < many; at++) {
            uint64_t passed;
            if (found[at].data.ptr == &always[0])
                is_order = true;
            else if (found[at].data.ptr == &always[1])
                take(listener);
            else if (found[at].data.ptr != &always[2])
                ((Pair *)found[at].data.ptr)->broken |= (found[at].events & EPOLLERR) != 0;
            else if (read(timer, &passed, sizeof passed) < 0 && errno != EAGAIN)
                fail("timer");
        }
        /* Last, since it may end connections that were found. */
        if (is_order && !obey())
            return 0;
    }
}
