/* bench.c: what the low half's calls cost. Figures are the best of several rounds. */
#include "check.h"

#include "../../npaccel/native/system/system.h"

#include <string.h>

static double
least(double a, double b)
{
    return a < b ? a : b;
}

static void
bench_new(void)
{
    double best = 1e18;
    for (int round = 0; round < 20; round++) {
        double start = now_ns();
        for (int i = 0; i < 10000; i++) {
            npa_range_free(npa_range_new((size_t)1 << 20));
        }
        best = least(best, (now_ns() - start) / 10000);
    }
    printf("new + free, no pages          %8.0f ns\n", best);
}

static void
bench_moves(size_t size, const char *name)
{
    double publish = 1e18, withdraw = 1e18, cycle = 1e18;
    for (int round = 0; round < 20; round++) {
        npa_range *r = npa_range_new(size);
        memset(npa_range_work(r), 1, size);
        double start = now_ns();
        CHECK(npa_range_publish(r) == 0);
        double middle = now_ns();
        CHECK(npa_range_withdraw(r) == 0);
        double end = now_ns();
        publish = least(publish, middle - start);
        withdraw = least(withdraw, end - middle);
        CHECK(npa_range_publish(r) == 0);
        npa_range_free(r);
        start = now_ns();
        r = npa_range_new(size);
        CHECK(npa_range_work(r) && npa_range_publish(r) == 0);
        npa_range_free(r);
        cycle = least(cycle, now_ns() - start);
    }
    npa_nursery_trim(0);
    printf("%-5s publish %8.1f us   withdraw %8.1f us   new, work, publish, free %8.1f us\n", name,
           publish / 1e3, withdraw / 1e3, cycle / 1e3);
}

static void
serve(npa_range *range, const void *touched)
{
    CHECK(touched != NULL);
    CHECK(npa_range_publish(range) == 0);
}

/* A touch: fault, evaluator, publication, back. */
static void
bench_fault(void)
{
    double best = 1e18, mean = 0;
    CHECK(npa_guard_install(serve, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        npa_range *r = npa_range_new((size_t)1 << 20);
        *npa_range_work(r) = 1;
        double start = now_ns();
        CHECK(*(volatile char *)r->home == 1);
        double took = now_ns() - start;
        best = least(best, took);
        mean += took / 2000;
        npa_range_free(r);
    }
    printf("touch of a guarded range      %8.1f us best, %.1f us mean\n", best / 1e3, mean / 1e3);
}

static void
nothing(void *context, int64_t task, int worker)
{
    (void)context, (void)task, (void)worker;
}

static void
bench_pool(void)
{
    double best = 1e18, mean = 0;
    npa_pool_threads(2);
    for (int i = 0; i < 20000; i++) {
        double start = now_ns();
        npa_pool_run(nothing, NULL, 2, NULL);
        double took = now_ns() - start;
        best = least(best, took);
        mean += took / 20000;
    }
    printf("empty launch, 2 threads       %8.0f ns best, %.0f ns mean\n", best, mean);
}

int
main(void)
{
    CHECK(npa_memory_init() == 0);
    bench_new();
    bench_moves((size_t)4 << 10, "4K");
    bench_moves((size_t)256 << 10, "256K");
    bench_moves((size_t)8 << 20, "8M");
    bench_moves((size_t)64 << 20, "64M");
    bench_fault();
    bench_pool();
    return 0;
}
