/* libvirt's own client making one call over and over, measured as `rpc-bench calls` measures ours.
 * client URI CALL THREADS MILLISECONDS: the threads share one connection. */
#include <libvirt/libvirt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static virConnectPtr connection;
static virDomainPtr domain;
static unsigned char uuid[VIR_UUID_BUFLEN];
static int (*one_call)(void);
static atomic_llong end_ns;
static pthread_barrier_t warm, go;

static long long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int lib_version(void)
{
    unsigned long version;
    return virConnectGetLibVersion(connection, &version);
}

static int lookup(void)
{
    virDomainPtr found = virDomainLookupByUUID(connection, uuid);
    return found ? virDomainFree(found) : -1;
}

static int list(void)
{
    virDomainPtr *all = NULL;
    int count = virConnectListAllDomains(connection, &all, 0);
    for (int i = 0; i < count; i++)
        virDomainFree(all[i]);
    free(all);
    return count > 0 ? 0 : -1;
}

static int xml(void)
{
    char *text = virDomainGetXMLDesc(domain, 0);
    free(text);
    return text ? 0 : -1;
}

static long long until_end(void)
{
    long long calls = 0;
    do {
        if (one_call() < 0)
            exit(1);
        calls++;
    } while (now(CLOCK_MONOTONIC) < atomic_load(&end_ns));
    return calls;
}

static void *thread(void *counted)
{
    until_end();
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&go);
    *(long long *)counted = until_end();
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*call)(void);
    } calls[] = { { "lib-version", lib_version }, { "lookup", lookup }, { "list", list }, { "xml", xml } };
    if (argc != 5)
        return 2;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (!strcmp(argv[2], calls[i].name))
            one_call = calls[i].call;
    int threads = atoi(argv[3]);
    long long length = atoll(argv[4]) * 1000000;
    connection = virConnectOpen(argv[1]);
    if (!one_call || threads < 1 || !connection)
        return 1;
    domain = virDomainLookupByName(connection, "test");
    if (!domain || virDomainGetUUID(domain, uuid) < 0)
        return 1;

    pthread_t *all = calloc(threads, sizeof(*all));
    long long *counted = calloc(threads, sizeof(*counted));
    pthread_barrier_init(&warm, NULL, threads + 1);
    pthread_barrier_init(&go, NULL, threads + 1);
    atomic_store(&end_ns, now(CLOCK_MONOTONIC) + length / 5);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, thread, &counted[i]))
            return 1;
    pthread_barrier_wait(&warm);
    long long wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID), count = 0;
    atomic_store(&end_ns, wall + length);
    pthread_barrier_wait(&go);
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        count += counted[i];
    }
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("sample %lld %lld %lld\n", count, wall, cpu);
    virDomainFree(domain);
    virConnectClose(connection);
    return 0;
}
