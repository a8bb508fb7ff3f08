#include <stdlib.h>
#include <string.h>
char *make(void) { return strdup("a plugin's text"); }
void take(char *text) { free(text); }
