/* unknown.c: an object that calls a function the loader does not know. */
int puts(const char *);

int
speak(void)
{
    return puts("no");
}
