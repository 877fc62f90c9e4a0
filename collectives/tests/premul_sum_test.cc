// SPDX-License-Identifier: Apache-2.0
// Reductions with a factor, created and destroyed.
#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

using PremulSumTest = testing::LocalRanks;

TEST_F(PremulSumTest, DestroyedFactorsAreRefusedAndGivenOutAgain) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 64);
    keel_reduction stale = 0;
    ASSERT_KEEL_OK(keel_premul_sum_create(comms_[rank], 2, &stale));
    // More than a communicator has at a time.
    for (int i = 0; i < 70'000; ++i) {
      keel_reduction reduction = 0;
      ASSERT_KEEL_OK(keel_premul_sum_create(comms_[rank], i, &reduction));
      ASSERT_KEEL_OK(keel_premul_sum_destroy(comms_[rank], reduction));
    }
    ASSERT_KEEL_OK(keel_premul_sum_destroy(comms_[rank], stale));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "is none", keel_premul_sum_destroy(comms_[rank], stale));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "is none of this communicator",
                 keel_all_reduce(comms_[rank], data, data, 4, KEEL_FLOAT32, stale, streams_[rank]));
    EXPECT_EQ(keel_premul_sum_destroy(comms_[rank], KEEL_SUM), KEEL_INVALID_ARGUMENT);
  }
  std::array<void*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    keel_reduction reduction = 0;
    data[rank] = upload<float>(rank, {1, 2});
    ASSERT_KEEL_OK(keel_premul_sum_create(comms_[rank], 2, &reduction));
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], 2, KEEL_FLOAT32, reduction,
                                   streams_[rank]));
    EXPECT_KEEL_OK(keel_premul_sum_destroy(comms_[rank], reduction)) << "the call has the factor";
  }
  EXPECT_EQ(download<float>(0, data[0], 2), (std::vector<float>{6, 12}));
  synchronize();
}

}  // namespace
}  // namespace keel
