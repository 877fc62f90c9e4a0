// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wait_policy.h"

#include <algorithm>
#include <chrono>

namespace keel {

WaitPolicy::WaitPolicy(bool oversubscribed)
    : oversubscribed_(oversubscribed),
      turns_before_park_(oversubscribed ? 200 : pauses_in(50'000)),
      turns_before_worker_(oversubscribed ? 100 : pauses_in(20'000)) {}

// Uses the shortest of several measurements, since other threads may take the core meanwhile.
static double ns_of_pause() {
  constexpr int kTimes = 5;
  constexpr int kPauses = 200;
  double shortest = 1e9;
  for (int time = 0; time < kTimes; ++time) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kPauses; ++i) WaitPolicy::pause();
    const std::chrono::duration<double, std::nano> passed =
        std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, passed.count() / kPauses);
  }
  return std::max(shortest, 0.1);
}

uint32_t pauses_in(int64_t ns) {
  static const double each = ns_of_pause();
  return static_cast<uint32_t>(static_cast<double>(ns) / each);
}

}  // namespace keel
