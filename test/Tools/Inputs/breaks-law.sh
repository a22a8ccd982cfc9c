#!/bin/sh
# A failure to keep: a monoid that breaks a law.
! attn-opt --attn-check-laws "$1" 2>&1 | grep -q "breaks the law"
