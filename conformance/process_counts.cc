// SPDX-License-Identifier: Apache-2.0
#include "conformance/process_counts.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "conformance/harness.h"

namespace keel::conformance {

namespace {

constexpr std::array<const char*, 3> kNames = {"open files", "threads", "mapped ranges"};
using Counts = std::array<int64_t, kNames.size()>;

int64_t entries(const char* folder) {
  int64_t count = 0;
  std::error_code ignored;
  for (std::filesystem::directory_iterator each(folder, ignored), end; each != end;
       each.increment(ignored)) {
    ++count;
  }
  return count;
}

int64_t lines(const char* file) {
  std::ifstream stream(file);
  std::string line;
  int64_t count = 0;
  while (std::getline(stream, line)) ++count;
  return count;
}

Counts observed_counts(const Where& where) {
  Counts counts = {};
  if (!judging()) {
    counts = {entries("/proc/self/fd"), entries("/proc/self/task"), lines("/proc/self/maps")};
  }
  for (int64_t& count : counts) count = observe(count, where);
  return counts;
}

}  // namespace

void expect_given_back(uint32_t rounds, const std::function<void()>& body, const std::string& what,
                       Where where) {
  const auto repeat = [&] {
    for (uint32_t i = 0; i < rounds; ++i) body();
    return observed_counts(where);
  };
  Counts before = repeat();
  std::array<bool, kNames.size()> grows = {true, true, true};
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Counts after = repeat();
    bool any = false;
    for (size_t i = 0; i < kNames.size(); ++i) {
      grows[i] = grows[i] && after[i] - before[i] >= int64_t{rounds} / 2;
      any |= grows[i];
    }
    if (!any) return;
    before = after;
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    check(!grows[i],
          fmt::format("{} leave {} behind: {} of them after {} rounds", what, kNames[i], before[i],
                      3 * rounds),
          where);
  }
}

}  // namespace keel::conformance
