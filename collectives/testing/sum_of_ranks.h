// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_COLLECTIVES_TESTING_SUM_OF_RANKS_H_
#define KEEL_COLLECTIVES_TESTING_SUM_OF_RANKS_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <cstdint>
#include <vector>

#include "core/testing/expect.h"

namespace keel::testing {

// Expects an all_reduce of rank + 1, |count| times, to give |expected|. Every rank calls, on a
// thread of its own.
inline void expect_sum_of_ranks(keel_device device, keel_comm comm, uint32_t rank, uint64_t count,
                                uint32_t expected) {
  keel_stream stream = {};
  void* memory = nullptr;
  const uint32_t own = rank + 1;
  std::vector<uint32_t> sums(count);
  const uint64_t bytes = count * sizeof(own);
  EXPECT_KEEL_OK(keel_stream_create(device, 0, &stream));
  EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, bytes, &memory));
  EXPECT_KEEL_OK(keel_fill(stream, memory, &own, sizeof(own), bytes));
  EXPECT_KEEL_OK(keel_all_reduce(comm, memory, memory, count, KEEL_UINT32, KEEL_SUM, stream));
  EXPECT_KEEL_OK(keel_copy(stream, KEEL_HOST, sums.data(), device, memory, bytes));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
  EXPECT_EQ(sums, std::vector<uint32_t>(count, expected));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  EXPECT_KEEL_OK(keel_free(device, memory));
}

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_SUM_OF_RANKS_H_
