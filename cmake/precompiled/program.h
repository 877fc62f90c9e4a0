// SPDX-License-Identifier: Apache-2.0
// Precompiled for programs: what libraries include, JSON and files. Not CLI11: its headers define
// objects, whose construction each source that sees them compiles, five seconds for nothing.
#ifndef KEEL_CMAKE_PRECOMPILED_PROGRAM_H_
#define KEEL_CMAKE_PRECOMPILED_PROGRAM_H_

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cmake/precompiled/library.h"

#endif  // KEEL_CMAKE_PRECOMPILED_PROGRAM_H_
