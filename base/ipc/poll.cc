// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/poll.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace keel {

int poll_until(std::span<pollfd> entries, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    const int64_t ns = std::max<int64_t>(0, left.count());
    const timespec timeout = {ns / 1'000'000'000, ns % 1'000'000'000};
    const int ready = ppoll(entries.data(), entries.size(), &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

}  // namespace keel
