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
// Long enough for any loaded machine; only a hang gets there.
constexpr int64_t kPatience = 60 * kSecond;

using Settings = std::map<std::string, std::string>;

// The file of the plugin |name|: "fake" and others made for tests lie in plugins/ beside the
// test program, wherever that was put; "cpu" and its like in KEEL_PLUGIN_PATH.
std::string plugin_path(const std::string& name);

// Loads an instance of a plugin; its devices. Empty, with a test failure, if it fails.
std::vector<keel_device> load(const std::string& plugin, const Settings& settings = {});

// While one of these lives, nothing that is enqueued on a device of "fake", "fake_polled" or
// "sim_paused", the emulated chip made pausable, begins to run.
class FakePause {
 public:
  FakePause();
  ~FakePause();
  FakePause(const FakePause&) = delete;
  FakePause& operator=(const FakePause&) = delete;
};

// Keel without any backend, up from SetUp to TearDown; after that no rule of the ABI
// may have been broken against the fake plugin, nor, under KEEL_VALIDATE=1, against any.
class KeelTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Whether Keel comes up with the validation layer on, whatever the environment says.
  bool validate_ = false;
  // What it has found since SetUp, or the last call of this; none is left for TearDown.
  uint64_t take_problems();

  keel_stream new_stream(keel_device device);
  // A recorded event.
  keel_event record(keel_stream stream);
  void* alloc(keel_device device, uint64_t bytes);
  // Device memory of |values|, written.
  void* alloc_filled(keel_device device, const std::vector<uint32_t>& values);
  // What |count| words of device memory hold, read on a stream of its own.
  std::vector<uint32_t> read(keel_device device, const void* pointer, size_t count);
  // Enqueues a fill of |count| words.
  keel_status fill(keel_stream stream, void* pointer, uint32_t value, size_t count);

 private:
  int violations_before_ = 0;
  uint64_t problems_before_ = 0;
};

// Different words, the same for the same seed.
std::vector<uint32_t> pattern(size_t count, uint32_t seed);

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_KEEL_TEST_H_
