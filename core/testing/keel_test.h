// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that use Keel through keel.h.
#ifndef KEEL_CORE_TESTING_KEEL_TEST_H_
#define KEEL_CORE_TESTING_KEEL_TEST_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/testing/expect.h"

namespace keel::testing {

constexpr int64_t kSecond = 1'000'000'000;
// Long enough for any loaded machine; only a hang takes as long.
constexpr int64_t kTestTimeout = 60 * kSecond;

using Settings = std::map<std::string, std::string>;

// Returns the file of the plugin |name|: "fake" and other test plugins lie in plugins/ beside the
// test program, wherever it is installed; "cpu" and other backends in KEEL_PLUGIN_PATH.
std::string plugin_path(const std::string& name);

// Loads an instance of a plugin and returns its devices; empty, with a test failure, on an error.
std::vector<keel_device> load(const std::string& plugin, const Settings& settings = {});

// While alive, no enqueued work begins on a device of "fake", "fake_polled" or "sim_paused", the
// pausable emulated chip.
class FakePause {
 public:
  FakePause();
  ~FakePause();
  FakePause(const FakePause&) = delete;
  FakePause& operator=(const FakePause&) = delete;
};

// Keel without a backend, initialized from SetUp to TearDown. TearDown fails the test if a rule of
// the ABI was broken against the fake plugin or, under KEEL_VALIDATE=1, against any plugin.
class KeelTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Whether Keel starts with the validation layer, regardless of the environment.
  bool validate_ = false;
  // Returns the number of problems found since SetUp, or since the last call; TearDown then sees
  // none of them.
  uint64_t take_problems();

  keel_stream new_stream(keel_device device);
  // Returns a recorded event.
  keel_event record(keel_stream stream);
  void* alloc(keel_device device, uint64_t bytes);
  // Returns device memory with |values| written to it.
  void* alloc_filled(keel_device device, const std::vector<uint32_t>& values);
  // Returns |count| words of device memory, read on a separate stream.
  std::vector<uint32_t> read(keel_device device, const void* pointer, size_t count);
  // Enqueues a fill of |count| words.
  keel_status fill(keel_stream stream, void* pointer, uint32_t value, size_t count);

 private:
  int violations_before_ = 0;
  uint64_t problems_before_ = 0;
};

// Returns different words, the same for the same seed.
std::vector<uint32_t> pattern(size_t count, uint32_t seed);

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_KEEL_TEST_H_
