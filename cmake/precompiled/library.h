// SPDX-License-Identifier: Apache-2.0
// Precompiled for libraries: the standard headers that core and collectives include most, and fmt.
#ifndef KEEL_CMAKE_PRECOMPILED_LIBRARY_H_
#define KEEL_CMAKE_PRECOMPILED_LIBRARY_H_

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#endif  // KEEL_CMAKE_PRECOMPILED_LIBRARY_H_
