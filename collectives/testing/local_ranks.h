// SPDX-License-Identifier: Apache-2.0
// Fixture of tests with all ranks of a communicator in one thread, on devices of the test backend.
#ifndef KEEL_COLLECTIVES_TESTING_LOCAL_RANKS_H_
#define KEEL_COLLECTIVES_TESTING_LOCAL_RANKS_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace keel::testing {

class LocalRanks : public ::testing::Test {
 protected:
  static constexpr uint32_t kWorld = 3;

  static void SetUpTestSuite() { ASSERT_KEEL_OK(init_test_devices(kWorld)); }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }

  void SetUp() override {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_find(test_device(rank).c_str(), &devices_[rank]));
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), kWorld, &options_, comms_.data()));
  }
  void TearDown() override {
    for (keel_comm comm : comms_) {
      if (comm.id == 0) continue;
      EXPECT_KEEL_OK(keel_comm_destroy(comm));
    }
    for (keel_stream stream : streams_) {
      if (stream.id != 0) keel_stream_destroy(stream);
    }
    for (const auto& [device, pointer] : memory_) EXPECT_KEEL_OK(keel_free(device, pointer));
  }

  void* allocate(uint32_t rank, uint64_t bytes, keel_memory_kind kind = KEEL_MEMORY_DEVICE) {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(devices_[rank], kind, bytes, &pointer));
    memory_.emplace_back(devices_[rank], pointer);
    return pointer;
  }
  // Returns device memory of |rank| with |values|.
  template <typename Value>
  void* upload(uint32_t rank, const std::vector<Value>& values) {
    const uint64_t bytes = values.size() * sizeof(Value);
    void* const pointer = allocate(rank, bytes);
    EXPECT_KEEL_OK(
        keel_copy(streams_[rank], devices_[rank], pointer, KEEL_HOST, values.data(), bytes));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    return pointer;
  }
  // Returns |count| values once |rank|'s stream is done.
  template <typename Value>
  std::vector<Value> download(uint32_t rank, const void* pointer, uint64_t count) {
    std::vector<Value> values(count);
    EXPECT_KEEL_OK(keel_copy(streams_[rank], KEEL_HOST, values.data(), devices_[rank], pointer,
                             count * sizeof(Value)));
    EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    return values;
  }
  void synchronize() {
    for (keel_stream stream : streams_) {
      EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
    }
  }
  // Returns the failure of each stream, and makes the streams usable again.
  std::array<keel_status, kWorld> recover() {
    std::array<keel_status, kWorld> statuses;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      statuses[rank] = keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT);
      EXPECT_KEEL_OK(keel_stream_recover(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    }
    return statuses;
  }
  // Whether the host dereferences device memory at the device's addresses.
  bool is_host_memory() {
    auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    void* const pointer = allocate(0, 64);
    EXPECT_KEEL_OK(keel_memory_find(devices_[0], pointer, &info));
    return info.host_alias == pointer;
  }

  keel_comm_options options_ = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  std::array<keel_device, kWorld> devices_ = {};
  std::array<keel_stream, kWorld> streams_ = {};
  std::array<keel_comm, kWorld> comms_ = {};
  std::vector<std::pair<keel_device, void*>> memory_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_LOCAL_RANKS_H_
