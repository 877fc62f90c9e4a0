// SPDX-License-Identifier: Apache-2.0
// Precompiled for tests: what libraries include, GoogleTest and JSON.
#ifndef KEEL_CMAKE_PRECOMPILED_TEST_H_
#define KEEL_CMAKE_PRECOMPILED_TEST_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cmake/precompiled/library.h"

#endif  // KEEL_CMAKE_PRECOMPILED_TEST_H_
