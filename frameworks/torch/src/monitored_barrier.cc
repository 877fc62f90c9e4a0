// SPDX-License-Identifier: Apache-2.0
#include "monitored_barrier.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <vector>

#include "lane.h"

namespace keel_torch {

namespace {

const std::vector<uint8_t> kMark{1};

std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (const int rank : ranks) {
    text += (rank == ranks.front() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

}  // namespace

void run_monitored_barrier(c10d::Store& store, const std::string& key, int rank, int world,
                           std::chrono::milliseconds timeout, bool wait_all_ranks) {
  const std::string within = " in " + std::to_string(timeout.count()) + " ms";
  const std::string answer = key + "/answer";
  if (rank != 0) {
    const std::string own = key + "/" + std::to_string(rank);
    store.set(own, kMark);
    if (wait_for_key(store, answer, timeout)) {
      store.deleteKey(own);
      return;
    }
    C10_THROW_ERROR(DistBackendError, "keel: rank " + std::to_string(rank) +
                                          ": Rank 0 timed out in monitoredBarrier: no answer" +
                                          within);
  }
  std::vector<int> missing;
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (int other = 1; other < world; ++other) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (wait_for_key(store, key + "/" + std::to_string(other), left)) continue;
    missing.push_back(other);
    if (!wait_all_ranks) break;
  }
  if (!missing.empty()) {
    C10_THROW_ERROR(DistBackendError, "keel: rank 0: " + named(missing) +
                                          " failed to pass monitoredBarrier" + within);
  }
  store.set(answer, kMark);
}

}  // namespace keel_torch
