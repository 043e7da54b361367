/* test_budget.c: how many ranges there may be, as mappings are limited. */
#include "check.h"

#define KIB ((size_t)1 << 10)

/* New ranges end at the budget, long before the kernel's limit, and can be had again after. */
static void
test_budget(void)
{
    enum { MANY = 40000 };
    static npa_range *many[MANY];
    int n = 0;
    for (; n < MANY && (many[n] = npa_range_new(256 * KIB)); n++) {
        *npa_range_work(many[n]) = 1;
        CHECK(npa_range_publish(many[n]) == 0);
    }
    npa_memory_stats now = memory();
    CHECK(n < MANY && now.mappings <= now.mapping_budget && count_maps() <= now.mappings + 200);
    for (int i = 0; i < n; i += 2) {
        npa_range_free(many[i]); /* every other one: nothing can merge */
    }
    CHECK(npa_range_new(256 * KIB) != NULL && memory().mappings <= now.mapping_budget);
    for (int i = 1; i < n; i += 2) {
        npa_range_free(many[i]);
    }
    npa_nursery_trim(0);
    CHECK(memory().live_ranges == 1 && count_maps() < 200);
}

/* Tiny ranges that stay hidden end before the budget does: a warm range keeps its pages, and others
 * can still be had. Shown each by itself, they stay far below the kernel's limit. */
static void
test_many_tiny(void)
{
    enum { MANY = 40000 };
    static npa_range *many[MANY];
    npa_range *large = npa_range_new(256 * KIB);
    *npa_range_work(large) = 1;
    npa_range_free(large);
    int n = 0;
    for (; n < MANY && (many[n] = npa_range_new(800)); n++) {
        *npa_range_work(many[n]) = 1;
    }
    CHECK(n < MANY && 2 * (size_t)n > memory().mapping_budget && memory().nursery_bytes > 0);
    size_t recycled = memory().recycled;
    large = npa_range_new(256 * KIB);
    CHECK(large != NULL && npa_range_work(large) != NULL && memory().recycled == recycled + 1);
    for (int i = 0; i < n; i += 2) {
        CHECK(npa_range_publish(many[i]) == 0);
    }
    CHECK(count_maps() < 3 * memory().mapping_budget);
    for (int i = 0; i < n; i++) {
        npa_range_free(many[i]);
    }
    npa_range_free(large);
    npa_nursery_trim(0);
}

int
main(void)
{
    CHECK(npa_memory_init() == 0);
    test_budget();
    test_many_tiny();
    printf("budget: ok\n");
    return 0;
}
