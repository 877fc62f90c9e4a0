// SPDX-License-Identifier: Apache-2.0
// Counts and sizes beyond 32 bits: every collective, by every algorithm with its own offsets.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/testing/repeated_memory.h"
#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

using keel::testing::Content;
using keel::testing::RepeatedMemory;

constexpr uint32_t kWorld = 2;
constexpr uint64_t k2To31 = uint64_t{1} << 31;
constexpr uint64_t k2To32 = uint64_t{1} << 32;
constexpr uint64_t kPiece = k2To31 + 7;  // two pieces are beyond 32 bits
constexpr uint64_t kWhole = k2To32 + 7;

class LargeCounts;

struct AlgorithmCase {
  const char* operation;
  void (LargeCounts::*run)();
  std::string algorithm = {};  // empty: built-in choice
  bool staged = false;

  std::string name() const {
    return operation + (algorithm.empty() ? "" : "_by_" + algorithm) + (staged ? "_staged" : "");
  }
};

class LargeCounts : public testing::TestWithParam<AlgorithmCase> {
 public:
  void all_reduce();
  void reduce();
  void reduce_scatter();
  void broadcast();
  void broadcast_of_pairs();
  void all_gather();
  void all_to_all();
  void gather();
  void scatter();
  void all_gather_v();
  void reduce_scatter_v();
  void all_to_all_v();
  void gather_v();
  void scatter_v();
  void send_recv();

 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer has memory of its own for each byte";
#else
    ASSERT_KEEL_OK(keel::testing::init_test_devices(kWorld));
    is_begun_ = true;
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.forbid_alias = GetParam().staged ? 1 : 0;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_device_get(rank, &devices_[rank]));
      ASSERT_KEEL_OK(keel_stream_create(devices_[rank], 0, &streams_[rank]));
    }
    if (!GetParam().algorithm.empty()) {
      setenv("KEEL_ALGORITHM", GetParam().algorithm.c_str(), /*overwrite=*/1);
    }
    const keel_status made = keel_comm_init_all(devices_.data(), kWorld, &options, comms_.data());
    unsetenv("KEEL_ALGORITHM");
    ASSERT_KEEL_OK(made);
#endif
  }
  void TearDown() override {
    if (!is_begun_) return;
    for (keel_comm comm : comms_) EXPECT_KEEL_OK(keel_comm_destroy(comm));
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
    for (const auto& [device, memory] : memory_) {
      EXPECT_KEEL_OK(keel_host_unregister(device, memory->data()));
    }
    EXPECT_KEEL_OK(keel_shutdown());
  }

  RepeatedMemory& memory(uint32_t rank, uint64_t size, uint64_t piece) {
    std::vector<uint64_t> points = {0, k2To31, piece, size};
    if (size > k2To32) points.push_back(k2To32);
    auto made = std::make_unique<RepeatedMemory>(size, points);
    EXPECT_KEEL_OK(keel_host_register(devices_[rank], made->data(), size));
    memory_.emplace_back(devices_[rank], std::move(made));
    return *memory_.back().second;
  }
  // Memory for the collective to read.
  const char* source(uint32_t rank, uint64_t size, const Content& content,
                     uint64_t piece = kPiece) {
    RepeatedMemory& made = memory(rank, size, piece);
    made.fill(content);
    return made.data();
  }
  // Memory to be filled with |content|; every byte differs from |content| so far.
  char* result(uint32_t rank, uint64_t size, const Content& content, uint64_t piece = kPiece) {
    RepeatedMemory& made = memory(rank, size, piece);
    made.fill_wrongly(content);
    expected_.emplace_back(&made, content);
    return made.data();
  }

  char* result_with_gap(uint32_t rank, uint64_t first, uint64_t second, const Content& content);

  void run(const std::function<keel_status(uint32_t rank)>& call) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) ASSERT_KEEL_OK(call(rank));
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_KEEL_OK(keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT));
    }
    for (size_t i = 0; i < expected_.size(); ++i) {
      const auto& [memory, content] = expected_[i];
      EXPECT_EQ(memory->find_difference(content), memory->size()) << "result " << i;
    }
  }

  std::array<keel_device, kWorld> devices_ = {};
  std::array<keel_stream, kWorld> streams_ = {};
  std::array<keel_comm, kWorld> comms_ = {};
  std::vector<std::pair<keel_device, std::unique_ptr<RepeatedMemory>>> memory_;
  std::vector<std::pair<const RepeatedMemory*, Content>> expected_;
  bool is_begun_ = false;
};

using Sources = std::array<const char*, kWorld>;
using Results = std::array<char*, kWorld>;

void LargeCounts::all_reduce() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kWhole, {0, static_cast<uint8_t>(rank + 1)});
    receive[rank] = result(rank, kWhole, {0, 3});
  }
  run([&](uint32_t rank) {
    return keel_all_reduce(comms_[rank], send[rank], receive[rank], kWhole, KEEL_UINT8, KEEL_SUM,
                           streams_[rank]);
  });
}

void LargeCounts::reduce() {
  Sources send;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kWhole, {0, static_cast<uint8_t>(rank + 1)});
  }
  char* const receive = result(1, kWhole, {0, 3});
  run([&](uint32_t rank) {
    return keel_reduce(comms_[rank], send[rank], rank == 1 ? receive : nullptr, kWhole, KEEL_UINT8,
                       KEEL_SUM, /*root=*/1, streams_[rank]);
  });
}

void LargeCounts::reduce_scatter() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kWorld * kPiece, {0, static_cast<uint8_t>(rank + 1)});
    receive[rank] = result(rank, kPiece, {rank * kPiece, 3});
  }
  run([&](uint32_t rank) {
    return keel_reduce_scatter(comms_[rank], send[rank], receive[rank], kPiece, KEEL_UINT8,
                               KEEL_SUM, streams_[rank]);
  });
}

void LargeCounts::broadcast() {
  const char* const send = source(1, kWhole, {});
  char* const receive = result(0, kWhole, {});
  run([&](uint32_t rank) {
    // In place at the root.
    char* const own = rank == 1 ? const_cast<char*>(send) : receive;
    return keel_broadcast(comms_[rank], own, own, kWhole, KEEL_UINT8, /*root=*/1, streams_[rank]);
  });
}

// More than 2^31 elements, of two bytes each.
void LargeCounts::broadcast_of_pairs() {
  const char* const send = source(1, 2 * kPiece, {});
  char* const receive = result(0, 2 * kPiece, {});
  run([&](uint32_t rank) {
    char* const own = rank == 1 ? const_cast<char*>(send) : receive;
    return keel_broadcast(comms_[rank], own, own, kPiece, KEEL_BFLOAT16, /*root=*/1,
                          streams_[rank]);
  });
}

void LargeCounts::all_gather() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kPiece, {rank * kPiece});
    receive[rank] = result(rank, kWorld * kPiece, {});
  }
  run([&](uint32_t rank) {
    return keel_all_gather(comms_[rank], send[rank], receive[rank], kPiece, KEEL_UINT8,
                           streams_[rank]);
  });
}

// Rank p's piece for rank r begins at (p + r) pieces of the whole.
void LargeCounts::all_to_all() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kWorld * kPiece, {rank * kPiece});
    receive[rank] = result(rank, kWorld * kPiece, {rank * kPiece});
  }
  run([&](uint32_t rank) {
    return keel_all_to_all(comms_[rank], send[rank], receive[rank], kPiece, KEEL_UINT8,
                           streams_[rank]);
  });
}

void LargeCounts::gather() {
  Sources send;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kPiece, {rank * kPiece});
  }
  char* const receive = result(0, kWorld * kPiece, {});
  run([&](uint32_t rank) {
    return keel_gather(comms_[rank], send[rank], rank == 0 ? receive : nullptr, kPiece, KEEL_UINT8,
                       /*root=*/0, streams_[rank]);
  });
}

void LargeCounts::scatter() {
  const char* const send = source(0, kWorld * kPiece, {});
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    receive[rank] = result(rank, kPiece, {rank * kPiece});
  }
  run([&](uint32_t rank) {
    return keel_scatter(comms_[rank], rank == 0 ? send : nullptr, receive[rank], kPiece, KEEL_UINT8,
                        /*root=*/0, streams_[rank]);
  });
}

// ---- with arrays: the second piece begins where 32 bits end, behind a gap -----------

constexpr std::array<uint64_t, kWorld> kCounts = {kPiece, kPiece + 100};
constexpr std::array<uint64_t, kWorld> kOffsets = {0, k2To32 + 50};

// Two pieces, the first of |first| bytes and the second of |second|, with a gap that stays
// unwritten.
char* LargeCounts::result_with_gap(uint32_t rank, uint64_t first, uint64_t second,
                                   const Content& content) {
  char* const receive = result(rank, kOffsets[1] + second, content, kOffsets[1]);
  constexpr uint64_t kSeen = 2 << 20;  // the bytes between have no memory of their own
  for (const uint64_t begin : {first, kOffsets[1] - kSeen}) {
    for (uint64_t i = begin; i < begin + kSeen; ++i) {
      receive[i] = static_cast<char>(content.at(i));
    }
  }
  return receive;
}

void LargeCounts::all_gather_v() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kCounts[rank], {kOffsets[rank]});
    receive[rank] = result_with_gap(rank, kCounts[0], kCounts[1], {});
  }
  run([&](uint32_t rank) {
    return keel_all_gather_v(comms_[rank], send[rank], receive[rank], kCounts.data(),
                             kOffsets.data(), KEEL_UINT8, streams_[rank]);
  });
}

void LargeCounts::reduce_scatter_v() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] =
        source(rank, kOffsets[1] + kCounts[1], {0, static_cast<uint8_t>(rank + 1)}, kOffsets[1]);
    receive[rank] = result(rank, kCounts[rank], {kOffsets[rank], 3});
  }
  run([&](uint32_t rank) {
    return keel_reduce_scatter_v(comms_[rank], send[rank], receive[rank], kCounts.data(),
                                 kOffsets.data(), KEEL_UINT8, KEEL_SUM, streams_[rank]);
  });
}

// Rank p's piece for rank r begins at (p + r) times the second offset; rank r defines the length.
void LargeCounts::all_to_all_v() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const Content content = {rank * kOffsets[1]};
    send[rank] = source(rank, kOffsets[1] + kCounts[1], content, kOffsets[1]);
    receive[rank] = result_with_gap(rank, kCounts[rank], kCounts[rank], content);
  }
  run([&](uint32_t rank) {
    const std::array<uint64_t, kWorld> received = {kCounts[rank], kCounts[rank]};
    return keel_all_to_all_v(comms_[rank], send[rank], kCounts.data(), kOffsets.data(),
                             receive[rank], received.data(), kOffsets.data(), KEEL_UINT8,
                             streams_[rank]);
  });
}

void LargeCounts::gather_v() {
  Sources send;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kCounts[rank], {kOffsets[rank]});
  }
  char* const receive = result_with_gap(1, kCounts[0], kCounts[1], {});
  run([&](uint32_t rank) {
    return keel_gather_v(comms_[rank], send[rank], rank == 1 ? receive : nullptr, kCounts.data(),
                         kOffsets.data(), KEEL_UINT8, /*root=*/1, streams_[rank]);
  });
}

void LargeCounts::scatter_v() {
  const char* const send = source(1, kOffsets[1] + kCounts[1], {}, kOffsets[1]);
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    receive[rank] = result(rank, kCounts[rank], {kOffsets[rank]});
  }
  run([&](uint32_t rank) {
    return keel_scatter_v(comms_[rank], rank == 1 ? send : nullptr, receive[rank], kCounts.data(),
                          kOffsets.data(), KEEL_UINT8, /*root=*/1, streams_[rank]);
  });
}

// ---- messages ----------------------------------------------------------------------

void LargeCounts::send_recv() {
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, kWhole, {rank * kPiece});
    receive[rank] = result(rank, kWhole, {(1 - rank) * kPiece});
  }
  run([&](uint32_t rank) {
    return keel_send_recv(comms_[rank], send[rank], kWhole, 1 - rank, receive[rank], kWhole,
                          1 - rank, KEEL_UINT8, streams_[rank]);
  });
}

TEST_P(LargeCounts, AreCounted) {
  (this->*GetParam().run)();
}

// Each collective by the built-in choice, and by the algorithms with separate sizes.
INSTANTIATE_TEST_SUITE_P(
    Of, LargeCounts,
    testing::Values(AlgorithmCase{"all_reduce", &LargeCounts::all_reduce},
                    AlgorithmCase{"all_reduce", &LargeCounts::all_reduce, "ring"},
                    AlgorithmCase{"reduce", &LargeCounts::reduce},
                    AlgorithmCase{"reduce", &LargeCounts::reduce, "", true},
                    AlgorithmCase{"reduce_scatter", &LargeCounts::reduce_scatter},
                    AlgorithmCase{"reduce_scatter", &LargeCounts::reduce_scatter, "halving"},
                    AlgorithmCase{"broadcast", &LargeCounts::broadcast},
                    AlgorithmCase{"broadcast", &LargeCounts::broadcast, "knomial"},
                    AlgorithmCase{"broadcast_of_bfloat16", &LargeCounts::broadcast_of_pairs},
                    AlgorithmCase{"all_gather", &LargeCounts::all_gather},
                    AlgorithmCase{"all_gather", &LargeCounts::all_gather, "bruck"},
                    AlgorithmCase{"all_to_all", &LargeCounts::all_to_all},
                    AlgorithmCase{"all_to_all", &LargeCounts::all_to_all, "bruck"},
                    AlgorithmCase{"all_to_all", &LargeCounts::all_to_all, "", true},
                    AlgorithmCase{"gather", &LargeCounts::gather},
                    AlgorithmCase{"scatter", &LargeCounts::scatter},
                    AlgorithmCase{"all_gather_v", &LargeCounts::all_gather_v},
                    AlgorithmCase{"reduce_scatter_v", &LargeCounts::reduce_scatter_v},
                    AlgorithmCase{"all_to_all_v", &LargeCounts::all_to_all_v},
                    AlgorithmCase{"all_to_all_v", &LargeCounts::all_to_all_v, "", true},
                    AlgorithmCase{"gather_v", &LargeCounts::gather_v},
                    AlgorithmCase{"scatter_v", &LargeCounts::scatter_v},
                    AlgorithmCase{"send_recv", &LargeCounts::send_recv},
                    AlgorithmCase{"send_recv", &LargeCounts::send_recv, "", true}),
    [](const testing::TestParamInfo<AlgorithmCase>& info) { return info.param.name(); });

}  // namespace
