// SPDX-License-Identifier: Apache-2.0
// Overlapping buffers of one call: allowed in the in-place form, refused otherwise.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <functional>
#include <map>
#include <string>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

constexpr uint32_t kWorld = 3;
constexpr uint64_t kCount = 100;

TEST(BufferOverlap, OtherThanInPlaceIsRefusedByEveryOperation) {
  ASSERT_KEEL_OK(keel::testing::init_test_devices(kWorld));
  std::array<keel_device, kWorld> devices;
  std::array<keel_comm, kWorld> comms;
  std::array<keel_stream, kWorld> streams;
  std::array<float*, kWorld> memory;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_device_get(rank, &devices[rank]));
    ASSERT_KEEL_OK(keel_stream_create(devices[rank], 0, &streams[rank]));
    void* allocated = nullptr;
    ASSERT_KEEL_OK(keel_alloc(devices[rank], KEEL_MEMORY_DEVICE, kCount * 4, &allocated));
    memory[rank] = static_cast<float*>(allocated);
  }
  ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), kWorld, nullptr, comms.data()));

  const keel_comm comm = comms[0];
  const keel_stream stream = streams[0];
  const uint64_t counts[] = {10, 11, 12};
  const uint64_t offsets[] = {0, 10, 21};
  using Call = std::function<keel_status(const void* send, void* receive)>;
  const std::map<std::string, Call> calls = {
      {"all_reduce",
       [&](const void* send, void* receive) {
         return keel_all_reduce(comm, send, receive, 10, KEEL_FLOAT32, KEEL_SUM, stream);
       }},
      {"reduce",
       [&](const void* send, void* receive) {
         return keel_reduce(comm, send, receive, 10, KEEL_FLOAT32, KEEL_SUM, 0, stream);
       }},
      {"reduce_scatter",
       [&](const void* send, void* receive) {
         return keel_reduce_scatter(comm, send, receive, 10, KEEL_FLOAT32, KEEL_SUM, stream);
       }},
      {"reduce_scatter_v",
       [&](const void* send, void* receive) {
         return keel_reduce_scatter_v(comm, send, receive, counts, offsets, KEEL_FLOAT32, KEEL_SUM,
                                      stream);
       }},
      {"broadcast",
       [&](const void* send, void* receive) {
         return keel_broadcast(comm, send, receive, 10, KEEL_FLOAT32, 0, stream);
       }},
      {"all_gather",
       [&](const void* send, void* receive) {
         return keel_all_gather(comm, send, receive, 10, KEEL_FLOAT32, stream);
       }},
      {"all_gather_v",
       [&](const void* send, void* receive) {
         return keel_all_gather_v(comm, send, receive, counts, offsets, KEEL_FLOAT32, stream);
       }},
      {"all_to_all",
       [&](const void* send, void* receive) {
         return keel_all_to_all(comm, send, receive, 10, KEEL_FLOAT32, stream);
       }},
      {"all_to_all_v",
       [&](const void* send, void* receive) {
         return keel_all_to_all_v(comm, send, counts, offsets, receive, counts, offsets,
                                  KEEL_FLOAT32, stream);
       }},
      {"gather",
       [&](const void* send, void* receive) {
         return keel_gather(comm, send, receive, 10, KEEL_FLOAT32, 0, stream);
       }},
      {"gather_v",
       [&](const void* send, void* receive) {
         return keel_gather_v(comm, send, receive, counts, offsets, KEEL_FLOAT32, 0, stream);
       }},
      {"scatter",
       [&](const void* send, void* receive) {
         return keel_scatter(comm, send, receive, 10, KEEL_FLOAT32, 0, stream);
       }},
      {"scatter_v",
       [&](const void* send, void* receive) {
         return keel_scatter_v(comm, send, receive, counts, offsets, KEEL_FLOAT32, 0, stream);
       }},
      {"send_recv",
       [&](const void* send, void* receive) {
         return keel_send_recv(comm, send, 10, 1, receive, 10, 2, KEEL_FLOAT32, stream);
       }},
  };
  float* const data = memory[0];
  for (const auto& [operation, call] : calls) {
    SCOPED_TRACE(operation);
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap", call(data, data + 1));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap", call(data + 1, data));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "overlap", call(data + 9, data));
  }

  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_KEEL_OK(keel_stream_synchronize(streams[rank], KEEL_TIMEOUT_DEFAULT));
    EXPECT_KEEL_OK(keel_comm_destroy(comms[rank]));
    keel_stream_destroy(streams[rank]);
    EXPECT_KEEL_OK(keel_free(devices[rank], memory[rank]));
  }
  EXPECT_KEEL_OK(keel_shutdown());
}

}  // namespace
