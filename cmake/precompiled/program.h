// SPDX-License-Identifier: Apache-2.0
// Precompiled for programs: what libraries include, JSON, files and command lines.
#ifndef KEEL_CMAKE_PRECOMPILED_PROGRAM_H_
#define KEEL_CMAKE_PRECOMPILED_PROGRAM_H_

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cmake/precompiled/library.h"

#endif  // KEEL_CMAKE_PRECOMPILED_PROGRAM_H_
