/* Plugin of librdkafka: decides before each of its connections whether the address may be reached.
 *
 * librdkafka connects to the addresses that brokers advertise. No function of Python can decide there:
 * the thread of a broker holds a lock of librdkafka, and a caller that waits for it may hold Python's lock.
 * So the rules of egress.py, ip_addresses.py and cleartext_logins.py are here once more;
 * tests/security/test_librdkafka_egress.py compares both.
 *
 * The property `understudy.login.exposed=true` says that a login would be readable on the network. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORTED __attribute__((visibility("default")))
#define LONGEST 512

/* Values of librdkafka's public header. */
enum { CONF_UNKNOWN = -2, CONF_OK = 0, FAILED = -196, NO_ERROR = 0 };

typedef int connect_function(int, const struct sockaddr *, int, const char *, void *);
typedef void set_connect_function(void *, connect_function *);
typedef int conf_set_function(void *, const char *, const char *, char *, size_t, void *);
typedef int add_conf_set_function(void *, const char *, conf_set_function *, void *);

static set_connect_function *set_connect;

/* -- kinds of addresses: ip_addresses.py */

static bool v4_forbidden(uint32_t ip) {
    return (ip >> 16) == 0xA9FE         /* 169.254.0.0/16 */
           || ip == 0x646464C8u         /* 100.100.100.200 */
           || ip == 0xA83F8110u         /* 168.63.129.16 */
           || ip == 0xC00000C0u;        /* 192.0.0.192 */
}

static uint32_t word(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool v6_forbidden(const uint8_t *ip) {
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF}, zeros[12] = {0};
    static const uint8_t nat64[12] = {0x00, 0x64, 0xFF, 0x9B}, local_nat64[6] = {0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01};
    static const uint8_t metadata[3][16] = {
        {0xFD, 0x20, 0x00, 0xCE, [14] = 0x02, [15] = 0x54},                         /* fd20:ce::254 */
        {0xFD, 0x00, 0x00, 0xC1, [12] = 0xA9, [13] = 0xFE, [14] = 0xA9, [15] = 0xFE}, /* fd00:c1::a9fe:a9fe */
        {0xFD, 0x00, 0x00, 0x42, [15] = 0x42},                                      /* fd00:42::42 */
    };
    if ((ip[0] == 0xFE && (ip[1] & 0xC0) == 0x80) || word(ip) == 0xFD000EC2u) /* fd00:ec2::/32 */
        return true;
    for (int at = 0; at < 3; at++)
        if (!memcmp(ip, metadata[at], 16))
            return true;
    if (ip[0] == 0x20 && ip[1] == 0x02) /* 6to4 */
        return v4_forbidden(word(ip + 2));
    if (word(ip) == 0x20010000u) /* Teredo: server, and the inverted client */
        return v4_forbidden(word(ip + 4)) || v4_forbidden(~word(ip + 12));
    if (!memcmp(ip, mapped, 12) || !memcmp(ip, nat64, 12) || !memcmp(ip, local_nat64, 6) || !memcmp(ip, zeros, 12))
        return v4_forbidden(word(ip + 12));
    return false;
}

static bool address_forbidden(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return v4_forbidden(ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr));
    if (address->sa_family == AF_INET6)
        return v6_forbidden(((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr);
    return true;
}

/* -- rules: egress.py */

static bool number(const char *text, long *value) {
    if (!*text || strlen(text) > 6)
        return false;
    for (const char *at = text; *at; at++)
        if (!isdigit((unsigned char)*at))
            return false;
    *value = strtol(text, NULL, 10);
    return true;
}

static bool port_matches(char *ports, long port) {
    long first, last;
    if (!*ports || !strcmp(ports, "*"))
        return true;
    char *dash = strchr(ports, '-');
    if (dash)
        *dash = '\0';
    if (!number(ports, &first))
        return false;
    last = first;
    if (dash && dash[1] && !number(dash + 1, &last))
        return false;
    return first <= port && port <= last;
}

/* 1: inside the network; 0: outside of it, or of the other family; -1: one of them is no address. */
static int network_matches(const char *pattern, const char *host) {
    char network[LONGEST];
    uint8_t wanted[16], given[16];
    snprintf(network, sizeof network, "%s", pattern);
    char *slash = strchr(network, '/');
    if (slash)
        *slash = '\0';
    for (int family = 0; family < 2; family++) {
        int kind = family ? AF_INET6 : AF_INET, size = family ? 128 : 32;
        if (inet_pton(kind, network, wanted) != 1)
            continue;
        long bits = size;
        if (slash && (!number(slash + 1, &bits) || bits > size))
            return -1;
        if (inet_pton(kind, host, given) != 1)
            return inet_pton(family ? AF_INET : AF_INET6, host, given) == 1 ? 0 : -1;
        for (long bit = 0; bit < bits; bit++)
            if ((wanted[bit / 8] ^ given[bit / 8]) & (0x80 >> bit % 8))
                return 0;
        return 1;
    }
    return -1;
}

static bool rule_matches(char *rule, const char *host, long port) {
    char *pattern = rule, *ports = rule + strlen(rule), *colon = strchr(rule, ':');
    if (*rule == '[') {
        pattern = rule + 1;
        char *end = strchr(pattern, ']');
        if (end) {
            *end = '\0';
            ports = end[1] == ':' ? end + 2 : end + 1;
        }
    } else if (colon && !strchr(colon + 1, ':')) {
        *colon = '\0';
        ports = colon + 1;
    }
    if (!port_matches(ports, port))
        return false;
    int inside = network_matches(pattern, host);
    return inside >= 0 ? inside : fnmatch(pattern, host, FNM_NOESCAPE) == 0;
}

/* Whether one of the rules matches; `without`: the answer if there is no rule. */
static bool rules_allow(const char *rules, const char *host, long port, bool without) {
    bool any = false, matches = false;
    char *copy = strdup(rules ? rules : ""), *rest = copy, *rule;
    if (!copy)
        return false;
    while (!matches && (rule = strsep(&rest, ","))) {
        while (isspace((unsigned char)*rule))
            rule++;
        for (size_t end = strlen(rule); end && isspace((unsigned char)rule[end - 1]); end--)
            rule[end - 1] = '\0';
        for (char *at = rule; *at; at++)
            *at = (char)tolower((unsigned char)*at);
        if (!*rule)
            continue;
        any = true;
        matches = rule_matches(rule, host, port);
    }
    free(copy);
    return any ? matches : without;
}

/* `where`: host:port as advertised. Returns whether the host is one and, in lower case, the host and the port. */
static bool split(const char *where, char *host, long *port) {
    const char *colon = strrchr(where, ':');
    if (!colon || (size_t)(colon - where) >= LONGEST || !number(colon + 1, port))
        return false;
    size_t size = 0;
    for (const char *at = where; at < colon; at++)
        if (*at != '[' && *at != ']')
            host[size++] = (char)tolower((unsigned char)*at);
    host[size] = '\0';
    return size > 0;
}

static bool is_loopback(const char *host) {
    uint8_t ip[16];
    static const uint8_t one[16] = {[15] = 1};
    if (inet_pton(AF_INET, host, ip) == 1)
        return ip[0] == 127;
    if (inet_pton(AF_INET6, host, ip) == 1)
        return !memcmp(ip, one, 16);
    return !strcmp(host, "localhost") || !strcmp(host, "localhost.");
}

static bool name_forbidden(const char *host) {
    uint8_t ip[16];
    if (inet_pton(AF_INET, host, ip) == 1)
        return v4_forbidden(word(ip));
    return inet_pton(AF_INET6, host, ip) == 1 && v6_forbidden(ip);
}

/* For tests: the rule about one address as it is advertised, without its resolution. */
EXPORTED bool understudy_egress_allows(const char *where, const char *rules, const char *cleartext_rules, bool exposed) {
    char host[LONGEST];
    long port;
    if (!split(where, host, &port) || name_forbidden(host) || !rules_allow(rules, host, port, true))
        return false;
    return !exposed || is_loopback(host) || rules_allow(cleartext_rules, host, port, false);
}

static int checked_connect(int fd, const struct sockaddr *address, int size, const char *where, bool exposed) {
    if (address_forbidden(address) || !understudy_egress_allows(where, getenv("UNDERSTUDY_EGRESS_ALLOW"),
                                                                getenv("UNDERSTUDY_CLEARTEXT_LOGIN_ALLOW"), exposed))
        return EACCES;
    return connect(fd, address, (socklen_t)size) == -1 && errno != EINPROGRESS ? errno : 0;
}

static int connect_any_login(int fd, const struct sockaddr *address, int size, const char *where, void *unused) {
    (void)unused;
    return checked_connect(fd, address, size, where, false);
}

static int connect_exposed_login(int fd, const struct sockaddr *address, int size, const char *where, void *unused) {
    (void)unused;
    return checked_connect(fd, address, size, where, true);
}

static int on_conf_set(void *conf, const char *name, const char *value, char *error, size_t size, void *unused) {
    (void)error, (void)size, (void)unused;
    if (strcmp(name, "understudy.login.exposed"))
        return CONF_UNKNOWN;
    set_connect(conf, value && !strcmp(value, "true") ? connect_exposed_login : connect_any_login);
    return CONF_OK;
}

/* librdkafka calls this when the property `plugin.library.paths` is set. */
EXPORTED int conf_init(void *conf, void **opaque, char *error, size_t size) {
    Dl_info caller;
    (void)opaque;
    /* The library that calls, since Python loads it where others do not see its names. */
    void *library = dladdr(__builtin_return_address(0), &caller) ? dlopen(caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    add_conf_set_function *add = NULL;
    if (library) {
        *(void **)&set_connect = dlsym(library, "rd_kafka_conf_set_connect_cb");
        *(void **)&add = dlsym(library, "rd_kafka_conf_interceptor_add_on_conf_set");
    }
    if (!set_connect || !add || add(conf, "understudy", on_conf_set, NULL)) {
        snprintf(error, size, "this librdkafka offers no connect callback");
        return FAILED;
    }
    set_connect(conf, connect_any_login);
    return NO_ERROR;
}
