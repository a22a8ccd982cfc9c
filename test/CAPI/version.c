// RUN: %cc_capi %s -o %t && %t

#include "attn-c/Version.h"
#include <string.h>

int main(void) { return strncmp(attnVersion(), "0.", 2) != 0; }
