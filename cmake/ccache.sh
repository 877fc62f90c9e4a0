#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ccache.sh CCACHE COMPILER ARGUMENT...: compiles through ccache.
# A precompiled header has 90 to 140 MB, and ccache hashes it again for each source that includes
# it: 90 of the 100 ms that a hit took. It now reads a checksum instead, written beside the header.
ccache=$1
shift
# ccache keeps results of precompiled headers only where it is told that macros behind them and the
# time of their files do not matter; it looks at their contents all the same.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
header=
for argument in "$@"; do
  case $argument in *.gch) header=$argument ;; esac
done
[ -n "$header" ] || exec "$ccache" "$@"
# With an earlier one in place, the compiler would include that, and write other bytes.
rm -f "$header"
"$ccache" "$@" && sha256sum <"$header" >"$header.sum"
