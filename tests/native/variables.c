/* variables.c: an object with variables of its own, which the loader refuses. */
int counter = 3;

int
count(void)
{
    return ++counter;
}
