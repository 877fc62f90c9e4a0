// SPDX-License-Identifier: Apache-2.0
// The fixture of tests that call checked tables directly.
#ifndef KEEL_CORE_VALIDATION_TESTING_CHECKED_TEST_H_
#define KEEL_CORE_VALIDATION_TESTING_CHECKED_TEST_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <string>
#include <vector>

#include "core/validation/testing/stub_plugin.h"

namespace keel::validation::testing {

// Two open devices of a checked stub, with one stream each. TearDown releases everything, and fails
// on any problem that the test has not taken.
class CheckedTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Succeeds if exactly one problem was found since the last check, with |text| in it.
  ::testing::AssertionResult found(const std::string& text);
  // Succeeds if no problem was found.
  ::testing::AssertionResult clean();
  std::vector<std::string> take_problems();

  const keel_device_table& device() const { return *plugin_->device; }
  const keel_memory_table& memory() const { return *plugin_->memory; }
  const keel_stream_table& stream() const { return *plugin_->stream; }
  const keel_kernel_table& kernel() const { return *plugin_->kernel; }
  const keel_op_table& op() const { return *plugin_->op; }

  // Device memory of |size| bytes; freed at the end.
  char* alloc(uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE);
  keel_plugin_stream* new_stream();
  keel_plugin_event* new_event(uint32_t flags = 0);
  keel_plugin_event* recorded(keel_plugin_stream* on, uint32_t flags = 0);
  // Copies |size| bytes within the device.
  keel_status copy(void* destination, const void* source, uint64_t size);

  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_device* other_device_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  keel_plugin_stream* other_stream_ = nullptr;

 private:
  struct Memory {
    keel_memory_kind kind;
    void* pointer;
  };
  std::vector<Memory> memory_;
  std::vector<keel_plugin_stream*> streams_;
  std::vector<keel_plugin_event*> events_;
};

}  // namespace keel::validation::testing

#endif  // KEEL_CORE_VALIDATION_TESTING_CHECKED_TEST_H_
