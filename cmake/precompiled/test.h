// SPDX-License-Identifier: Apache-2.0
// Precompiled for tests: what libraries include, and GoogleTest. Not JSON, which one test in ten
// includes: each source that sees its header instantiates templates for 0.35 s.
#ifndef KEEL_CMAKE_PRECOMPILED_TEST_H_
#define KEEL_CMAKE_PRECOMPILED_TEST_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cmake/precompiled/library.h"

#endif  // KEEL_CMAKE_PRECOMPILED_TEST_H_
