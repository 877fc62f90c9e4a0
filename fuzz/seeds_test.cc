// SPDX-License-Identifier: Apache-2.0
// Runs every fuzzer on the inputs of corpus/, each unchanged and with random edits. Needs no
// separate build of Keel, unlike libFuzzer; `./dev fuzz` runs the coverage-guided search.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// KEEL_FUZZERS is F(answers) F(api) ..., as fuzz/CMakeLists.txt lists them.
#define F(name) extern "C" int name##_fuzz(const uint8_t* data, size_t size);
KEEL_FUZZERS
#undef F

namespace keel::fuzz {
namespace {

constexpr uint32_t kEdits = 200;
// Some fuzzers wait for a rank that never answers, so the edits of all files, at most 200 each,
// share this time.
constexpr std::chrono::seconds kTimeForEdits{3};

using Input = std::vector<uint8_t>;

struct Fuzzer {
  const char* name;
  int (*run)(const uint8_t* data, size_t size);
};

constexpr Fuzzer kFuzzers[] = {
#define F(name) {#name, name##_fuzz},
    KEEL_FUZZERS
#undef F
};

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Seed {
  std::filesystem::path path;
  Input input;
};

std::vector<Seed> seeds_of(const Fuzzer& fuzzer) {
  std::vector<Seed> seeds;
  const auto folder = std::filesystem::path(KEEL_FUZZ_CORPUS) / fuzzer.name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    seeds.push_back({entry.path(), read(entry.path())});
  }
  std::sort(seeds.begin(), seeds.end(),
            [](const Seed& a, const Seed& b) { return a.path < b.path; });
  return seeds;
}

// Changes, removes or repeats up to 8 bytes at up to three positions.
void edit(Input& input, std::mt19937& random) {
  const auto below = [&random](size_t bound) { return random() % bound; };
  for (size_t edits = 1 + below(3); edits > 0 && !input.empty(); --edits) {
    const size_t at = below(input.size());
    const size_t size = std::min<size_t>(1 + below(8), input.size() - at);
    const auto begin = input.begin() + static_cast<ptrdiff_t>(at);
    const auto end = begin + static_cast<ptrdiff_t>(size);
    switch (below(4)) {
      case 0:
        *begin ^= static_cast<uint8_t>(1 << below(8));
        break;
      case 1:
        std::generate(begin, end, [&] { return static_cast<uint8_t>(random()); });
        break;
      case 2:
        input.erase(begin, end);
        break;
      default: {
        const Input repeated(begin, end);
        input.insert(begin, repeated.begin(), repeated.end());
      }
    }
  }
}

// Exits with 0. On a crash, the last line printed names the failing input.
[[noreturn]] void run_all(const Fuzzer& fuzzer) {
  if (std::freopen("/dev/null", "w", stdout) == nullptr) std::abort();  // of fuzzed code
  const std::vector<Seed> seeds = seeds_of(fuzzer);
  const auto run = [&fuzzer](const Seed& seed, uint32_t number, const Input& input) {
    std::fprintf(stderr, "%s, edit %u\n", seed.path.c_str(), number);
    fuzzer.run(input.data(), input.size());
  };
  for (const Seed& seed : seeds) run(seed, 0, seed.input);
  const auto end = std::chrono::steady_clock::now() + kTimeForEdits;
  for (uint32_t number = 1; number <= kEdits; ++number) {
    for (const Seed& seed : seeds) {
      if (std::chrono::steady_clock::now() > end) std::_Exit(0);
      std::mt19937 random(number);
      Input input = seed.input;
      edit(input, random);
      run(seed, number, input);
    }
  }
  std::_Exit(0);
}

class SeedsTest : public ::testing::TestWithParam<Fuzzer> {};

TEST_P(SeedsTest, FuzzerTakesEveryInput) {
  ASSERT_FALSE(seeds_of(GetParam()).empty());
  EXPECT_EXIT(run_all(GetParam()), ::testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Fuzzers, SeedsTest, ::testing::ValuesIn(kFuzzers),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace keel::fuzz
