// Counts of more elements, and buffers of more bytes, than 32 bits tell: every collective, by every
// algorithm that is made of offsets of its own.
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
constexpr uint64_t kPiece = k2To31 + 7;  // two of them are more than 32 bits tell
constexpr uint64_t kWhole = k2To32 + 7;

class LargeCounts;

struct Doing {
  const char* operation;
  void (LargeCounts::*run)();
  std::string algorithm = {};  // empty: as built in
  bool staged = false;

  std::string name() const {
    return operation + (algorithm.empty() ? "" : "_by_" + algorithm) + (staged ? "_staged" : "");
  }
};

class LargeCounts : public testing::TestWithParam<Doing> {
 public:
  void all_reduce();
  void reduce();
  void reduce_scatter();
  void broadcast();
  void all_gather();
  void all_to_all();
  void gather();
  void scatter();
  void all_gather_v();
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
  // Read by the collective.
  const char* source(uint32_t rank, uint64_t size, const Content& content,
                     uint64_t piece = kPiece) {
    RepeatedMemory& made = memory(rank, size, piece);
    made.fill(content);
    return made.data();
  }
  // To become |content| in all its bytes, of which none is so yet.
  char* result(uint32_t rank, uint64_t size, const Content& content, uint64_t piece = kPiece) {
    RepeatedMemory& made = memory(rank, size, piece);
    made.fill_wrongly(content);
    expected_.emplace_back(&made, content);
    return made.data();
  }

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

// Rank p's piece for rank r is what begins at (p + r) pieces of the whole.
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

// The second piece begins where 32 bits end.
void LargeCounts::all_gather_v() {
  const std::array<uint64_t, kWorld> counts = {kPiece, kPiece + 100};
  const std::array<uint64_t, kWorld> offsets = {0, k2To32 + 50};
  Sources send;
  Results receive;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    send[rank] = source(rank, counts[rank], {offsets[rank]});
    receive[rank] = result(rank, offsets[1] + counts[1], {}, offsets[1]);
    // Between the pieces nobody writes.
    for (uint64_t i = counts[0]; i < counts[0] + (2 << 20); ++i) {
      receive[rank][i] = static_cast<char>(Content().at(i));
    }
    for (uint64_t i = offsets[1] - (2 << 20); i < offsets[1]; ++i) {
      receive[rank][i] = static_cast<char>(Content().at(i));
    }
  }
  run([&](uint32_t rank) {
    return keel_all_gather_v(comms_[rank], send[rank], receive[rank], counts.data(), offsets.data(),
                             KEEL_UINT8, streams_[rank]);
  });
}

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

// Each by what is built in, and of the others those with sizes of their own.
INSTANTIATE_TEST_SUITE_P(
    Of, LargeCounts,
    testing::Values(Doing{"all_reduce", &LargeCounts::all_reduce},
                    Doing{"all_reduce", &LargeCounts::all_reduce, "ring"},
                    Doing{"reduce", &LargeCounts::reduce},
                    Doing{"reduce", &LargeCounts::reduce, "", true},
                    Doing{"reduce_scatter", &LargeCounts::reduce_scatter},
                    Doing{"reduce_scatter", &LargeCounts::reduce_scatter, "halving"},
                    Doing{"broadcast", &LargeCounts::broadcast},
                    Doing{"broadcast", &LargeCounts::broadcast, "knomial"},
                    Doing{"all_gather", &LargeCounts::all_gather},
                    Doing{"all_gather", &LargeCounts::all_gather, "bruck"},
                    Doing{"all_to_all", &LargeCounts::all_to_all},
                    Doing{"all_to_all", &LargeCounts::all_to_all, "bruck"},
                    Doing{"all_to_all", &LargeCounts::all_to_all, "", true},
                    Doing{"gather", &LargeCounts::gather}, Doing{"scatter", &LargeCounts::scatter},
                    Doing{"all_gather_v", &LargeCounts::all_gather_v},
                    Doing{"send_recv", &LargeCounts::send_recv},
                    Doing{"send_recv", &LargeCounts::send_recv, "", true}),
    [](const testing::TestParamInfo<Doing>& info) { return info.param.name(); });

}  // namespace
