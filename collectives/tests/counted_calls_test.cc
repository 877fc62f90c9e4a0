// SPDX-License-Identifier: Apache-2.0
// Every call of a rank counts, refused or not: the ranks stay at the same operation despite errors
// of one rank, and never add up data of different steps.
#include <gtest/gtest.h>
#include <keel/keel.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/expect.h"
#include "core/testing/test_backend.h"

namespace {

constexpr uint64_t kMostCount = 70'001;
constexpr uint32_t kMostWorld = 8;

struct Rank {
  uint32_t rank = 0;
  uint32_t world = 0;
  keel_device device = {};
  keel_comm comm = {};
  keel_stream stream = {};
  float* data = nullptr;  // a bucket for each operation of a step, with room for every count

  float* bucket(uint32_t index) const { return data + index * kMostCount; }
  keel_status all_reduce(float* at, uint64_t count) const {
    return keel_all_reduce(comm, at, at, count, KEEL_FLOAT32, KEEL_SUM, stream);
  }
  keel_status synchronize() const { return keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT); }
  keel_status recover() const { return keel_stream_recover(stream, KEEL_TIMEOUT_DEFAULT); }
};

class CountedCalls : public testing::Test {
 protected:
  static constexpr uint32_t kBuckets = 3;

  static void SetUpTestSuite() {
    keel::testing::set_test_devices(2);
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    // A ring of the devices of both backends, if the backend under test is not the CPU.
    const std::string backends =
        keel::testing::test_backend() == "cpu" ? "cpu" : "cpu," + keel::testing::test_backend();
    options.backends = backends.c_str();
    options.default_timeout_ns = 60'000'000'000;
    ASSERT_KEEL_OK(keel_init(&options));
  }
  static void TearDownTestSuite() { EXPECT_KEEL_OK(keel_shutdown()); }
  void TearDown() override { end(); }

  void begin(uint32_t world) {
    uint32_t count = 0;
    ASSERT_KEEL_OK(keel_device_count(&count));
    std::vector<keel_device> devices(world);
    std::vector<keel_comm> comms(world);
    for (uint32_t rank = 0; rank < world; ++rank) {
      ASSERT_KEEL_OK(keel_device_get((count - 1 + rank) % count, &devices[rank]));
    }
    ASSERT_KEEL_OK(keel_comm_init_all(devices.data(), world, nullptr, comms.data()));
    for (uint32_t rank = 0; rank < world; ++rank) {
      Rank& own = ranks_.emplace_back();
      own = {rank, world, devices[rank], comms[rank], {}, nullptr};
      ASSERT_KEEL_OK(keel_stream_create(own.device, 0, &own.stream));
      void* memory = nullptr;
      ASSERT_KEEL_OK(keel_alloc(own.device, KEEL_MEMORY_DEVICE,
                                kBuckets * kMostCount * sizeof(float), &memory));
      own.data = static_cast<float*>(memory);
    }
  }
  void end() {
    for (const Rank& own : ranks_) EXPECT_KEEL_OK(keel_comm_destroy(own.comm));
    free_ranks();
  }
  void free_ranks() {
    for (const Rank& own : ranks_) {
      keel_stream_destroy(own.stream);
      keel_free(own.device, own.data);
    }
    ranks_.clear();
  }
  // Runs |work| for each rank, on a thread per rank.
  void on_ranks(const std::function<void(const Rank&)>& work) {
    std::vector<std::thread> threads;
    for (const Rank& own : ranks_) threads.emplace_back([&] { work(own); });
    for (std::thread& thread : threads) thread.join();
  }
  // All ranks are at the same operation, and intact.
  void expect_whole() {
    on_ranks([](const Rank& own) {
      own.recover();
      EXPECT_KEEL_OK(keel_comm_async_error(own.comm));
      const float one = 1;
      EXPECT_KEEL_OK(keel_fill(own.stream, own.data, &one, sizeof(one), 100 * sizeof(one)));
      EXPECT_KEEL_OK(own.all_reduce(own.data, 100));
      float sum = 0;
      EXPECT_KEEL_OK(keel_copy(own.stream, KEEL_HOST, &sum, own.device, own.data, sizeof(sum)));
      EXPECT_KEEL_OK(own.synchronize());
      EXPECT_EQ(sum, static_cast<float>(own.world));
    });
  }
  std::string name(uint32_t rank) const {
    char text[64] = {};
    EXPECT_KEEL_OK(keel_device_name(ranks_[rank].device, text, sizeof(text)));
    return "rank " + std::to_string(rank) + " (" + text + ")";
  }

  std::vector<Rank> ranks_;
};

// ---- random steps ---------------------------------------------------------------

enum class Fault {
  kNone,
  kWrongCount,      // does not match
  kWrongReduction,  // does not match
  kNoBuffer,        // refused, as all below
  kTooMany,
  kNoDtype,
  kNoReduction,
  kNoStream,
  kForeignStream,
  kFailedStream,  // before the first call of the step
  kCount
};

struct Step {
  uint64_t counts[3];
  uint32_t operations;
  bool is_grouped;
  Fault fault;
  uint32_t rank;  // the rank at fault
  uint32_t at;    // the operation with the fault
};

std::vector<Step> make_steps(uint32_t world, uint32_t seed, uint32_t number) {
  constexpr uint64_t kCounts[] = {1, 255, 256, 3000, 20'000, kMostCount};
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::vector<Step> steps(number);
  for (Step& step : steps) {
    step.operations = 1 + below(3);
    for (uint64_t& count : step.counts) count = kCounts[below(std::size(kCounts))];
    step.is_grouped = below(4) == 0;
    step.fault = below(2) == 0 ? Fault::kNone
                               : static_cast<Fault>(below(static_cast<uint32_t>(Fault::kCount)));
    step.rank = below(world);
    step.at = below(step.operations);
  }
  return steps;
}

// |own|'s summand in operation |index| of |step|: all values and all sums are distinct.
float value(uint32_t step, uint32_t index) {
  return static_cast<float>(4 * step + index + 1);
}

keel_status call_wrongly(const Rank& own, Fault fault, float* at, uint64_t count,
                         keel_stream foreign) {
  switch (fault) {
    case Fault::kWrongCount:
      return own.all_reduce(at, count == 1 ? 2 : count - 1);
    case Fault::kWrongReduction:
      return keel_all_reduce(own.comm, at, at, count, KEEL_FLOAT32, KEEL_MAX, own.stream);
    case Fault::kNoBuffer:
      return own.all_reduce(nullptr, count);
    case Fault::kTooMany:
      return own.all_reduce(at, 10 * kMostCount);
    case Fault::kNoDtype:
      return keel_all_reduce(own.comm, at, at, count, 99, KEEL_SUM, own.stream);
    case Fault::kNoReduction:
      return keel_all_reduce(own.comm, at, at, count, KEEL_FLOAT32, 99, own.stream);
    case Fault::kNoStream:
      return keel_all_reduce(own.comm, at, at, count, KEEL_FLOAT32, KEEL_SUM, {});
    case Fault::kForeignStream:
      return keel_all_reduce(own.comm, at, at, count, KEEL_FLOAT32, KEEL_SUM, foreign);
    default:
      return own.all_reduce(at, count);
  }
}

void fail_stream(const Rank& own) {
  keel_gate gate = {};
  EXPECT_KEEL_OK(keel_gate_create(&gate));
  EXPECT_KEEL_OK(keel_stream_wait_gate(own.stream, gate));
  EXPECT_KEEL_OK(keel_gate_open(gate, KEEL_DATA_LOSS, "the loader lost a batch"));
  EXPECT_KEEL_OK(keel_gate_destroy(gate));
}

// Behaves as a framework's step: enqueues the operations in sequence, and waits once. Returns
// whether all went well; the sums are then those of this step.
bool run_step(const Rank& own, const Step& step, uint32_t number, keel_stream foreign) {
  const bool is_mine = step.rank == own.rank;
  for (uint32_t index = 0; index < step.operations; ++index) {
    const float added = value(number, index);
    EXPECT_KEEL_OK(keel_fill(own.stream, own.bucket(index), &added, sizeof(added),
                             step.counts[index] * sizeof(added)));
  }
  if (is_mine && step.fault == Fault::kFailedStream) fail_stream(own);
  bool is_well = true;
  if (step.is_grouped) {
    EXPECT_KEEL_OK(keel_group_start());
  }
  for (uint32_t index = 0; index < step.operations; ++index) {
    const Fault fault = is_mine && step.at == index ? step.fault : Fault::kNone;
    const keel_status called =
        call_wrongly(own, fault, own.bucket(index), step.counts[index], foreign);
    is_well = is_well && called == KEEL_OK;
  }
  if (step.is_grouped) is_well = keel_group_end() == KEEL_OK && is_well;
  float first[3] = {};
  float last[3] = {};
  for (uint32_t index = 0; index < step.operations; ++index) {
    const uint64_t end = step.counts[index] - 1;
    is_well = keel_copy(own.stream, KEEL_HOST, &first[index], own.device, own.bucket(index),
                        sizeof(float)) == KEEL_OK &&
              is_well;
    is_well = keel_copy(own.stream, KEEL_HOST, &last[index], own.device, own.bucket(index) + end,
                        sizeof(float)) == KEEL_OK &&
              is_well;
  }
  is_well = own.synchronize() == KEEL_OK && is_well;
  if (!is_well) return false;
  for (uint32_t index = 0; index < step.operations; ++index) {
    const float sum = static_cast<float>(own.world) * value(number, index);
    EXPECT_EQ(first[index], sum) << "step " << number << ", operation " << index;
    EXPECT_EQ(last[index], sum) << "step " << number << ", operation " << index;
  }
  return true;
}

class CountedCallsOfWorlds : public CountedCalls, public testing::WithParamInterface<uint32_t> {};

TEST_P(CountedCallsOfWorlds, KeepTheirPlacesWhateverFails) {
  constexpr uint32_t kSteps = 120;
  const uint32_t world = GetParam();
  begin(world);
  const std::vector<Step> steps = make_steps(world, world, kSteps);
  on_ranks([&](const Rank& own) {
    const keel_stream foreign = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& other) {
                                  return other.device.id != own.device.id;
                                })->stream;
    for (uint32_t number = 0; number < kSteps; ++number) {
      const Step& step = steps[number];
      const bool is_well = run_step(own, step, number, foreign);
      if (step.fault == Fault::kNone) {
        EXPECT_TRUE(is_well) << "rank " << own.rank << ", step " << number << ": "
                             << keel_last_error();
      }
      if (!is_well) {
        EXPECT_KEEL_OK(own.recover());
      }
      if (keel_comm_async_error(own.comm) != KEEL_OK) {
        ADD_FAILURE() << "rank " << own.rank << ", step " << number << ": " << keel_last_error();
        return;
      }
    }
  });
  expect_whole();
}

INSTANTIATE_TEST_SUITE_P(All, CountedCallsOfWorlds, testing::Values(2, 3, 5, kMostWorld));

// ---- every call -----------------------------------------------------------------

// A collective or message, valid if |at| is the rank's memory, and refused if |at| is NULL.
struct Call {
  const char* name;
  std::function<keel_status(const Rank&, float* at, uint32_t root)> make;
};

std::vector<Call> all_calls() {
  static const std::vector<uint64_t> counts(kMostWorld, 5);
  constexpr keel_dtype kType = KEEL_FLOAT32;
  const auto to = [](float* at) { return at == nullptr ? nullptr : at + 1000; };
  return {
      {"all_reduce",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_all_reduce(r.comm, at, to(at), 5, kType, KEEL_SUM, r.stream);
       }},
      {"reduce",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_reduce(r.comm, at, to(at), 5, kType, KEEL_SUM, root, r.stream);
       }},
      {"broadcast",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_broadcast(r.comm, at, to(at), 5, kType, root, r.stream);
       }},
      {"all_gather",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_all_gather(r.comm, at, to(at), 5, kType, r.stream);
       }},
      {"all_gather_v",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_all_gather_v(r.comm, at, to(at), at == nullptr ? nullptr : counts.data(),
                                  nullptr, kType, r.stream);
       }},
      {"reduce_scatter",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_reduce_scatter(r.comm, at, to(at), 5, kType, KEEL_SUM, r.stream);
       }},
      {"reduce_scatter_v",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_reduce_scatter_v(r.comm, at, to(at), at == nullptr ? nullptr : counts.data(),
                                      nullptr, kType, KEEL_SUM, r.stream);
       }},
      {"all_to_all",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_all_to_all(r.comm, at, to(at), 5, kType, r.stream);
       }},
      {"all_to_all_v",
       [=](const Rank& r, float* at, uint32_t) {
         const uint64_t* const own = at == nullptr ? nullptr : counts.data();
         return keel_all_to_all_v(r.comm, at, own, nullptr, to(at), own, nullptr, kType, r.stream);
       }},
      {"gather",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_gather(r.comm, at, to(at), 5, kType, root, r.stream);
       }},
      {"gather_v",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_gather_v(r.comm, at, to(at), at == nullptr ? nullptr : counts.data(), nullptr,
                              kType, root, r.stream);
       }},
      {"scatter",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_scatter(r.comm, at, to(at), 5, kType, root, r.stream);
       }},
      {"scatter_v",
       [=](const Rank& r, float* at, uint32_t root) {
         return keel_scatter_v(r.comm, at, to(at), at == nullptr ? nullptr : counts.data(), nullptr,
                               kType, root, r.stream);
       }},
      {"barrier",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_barrier(r.comm, at == nullptr ? keel_stream{} : r.stream);
       }},
      {"send_recv",
       [=](const Rank& r, float* at, uint32_t) {
         return keel_send_recv(r.comm, at, 5, (r.rank + 1) % r.world, to(at), 5,
                               (r.rank + r.world - 1) % r.world, kType, r.stream);
       }},
  };
}

TEST_F(CountedCalls, OneThatIsRefusedIsToldToAllOthers) {
  constexpr uint32_t kWorld = 3;
  begin(kWorld);
  for (const Call& call : all_calls()) {
    for (uint32_t wrong = 0; wrong < kWorld; ++wrong) {
      SCOPED_TRACE(std::string(call.name) + ", rank " + std::to_string(wrong));
      // With the wrong rank first, and last: as the root, so its memory matters.
      for (uint32_t turn = 0; turn < kWorld; ++turn) {
        const uint32_t rank = wrong == 1 ? kWorld - 1 - turn : turn;
        const keel_status called =
            call.make(ranks_[rank], rank == wrong ? nullptr : ranks_[rank].data, wrong);
        if (rank == wrong) {
          EXPECT_NE(called, KEEL_OK);
        }
      }
      for (uint32_t rank = 0; rank < kWorld; ++rank) {
        if (rank == wrong) {
          EXPECT_KEEL_OK(ranks_[rank].synchronize());
        } else {
          EXPECT_FAILS(KEEL_RANK_FAILED, name(wrong), ranks_[rank].synchronize());
          EXPECT_KEEL_OK(ranks_[rank].recover());
        }
      }
    }
  }
  expect_whole();
}

// No rank waits for an operation refused on all ranks.
TEST_F(CountedCalls, OnesThatAreRefusedToAllFailNobody) {
  begin(3);
  for (const Call& call : all_calls()) {
    for (const Rank& own : ranks_) EXPECT_NE(call.make(own, nullptr, own.rank), KEEL_OK);
  }
  for (const Rank& own : ranks_) EXPECT_KEEL_OK(own.synchronize());
  expect_whole();
}

TEST_F(CountedCalls, OneThatIsRefusedOnAFailedStreamIsToldToo) {
  begin(3);
  for (const Call& call : all_calls()) {
    SCOPED_TRACE(call.name);
    fail_stream(ranks_[1]);
    EXPECT_EQ(ranks_[1].synchronize(), KEEL_DATA_LOSS);
    for (const Rank& own : ranks_) {
      EXPECT_EQ(call.make(own, own.data, 1),
                own.rank == 1 ? keel_status{KEEL_STREAM_FAILED} : keel_status{KEEL_OK});
    }
    for (const uint32_t rank : {0, 2}) {
      EXPECT_FAILS(KEEL_RANK_FAILED, name(1), ranks_[rank].synchronize());
    }
    for (const Rank& own : ranks_) EXPECT_KEEL_OK(own.recover());
  }
  expect_whole();
}

// ---- messages, parts and groups -------------------------------------------------

TEST_F(CountedCalls, EitherHalfOfAMessageIsToldWhenTheOtherIsRefused) {
  begin(2);
  constexpr uint64_t kCount = 20'000;  // too large to be buffered
  const Rank& one = ranks_[0];
  const Rank& other = ranks_[1];
  for (uint32_t round = 0; round < 5; ++round) {  // more than the slots of a pair
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "dtype",
                 keel_send(one.comm, one.data, kCount, 99, 1, one.stream));
    EXPECT_KEEL_OK(keel_recv(other.comm, other.data, kCount, KEEL_FLOAT32, 0, other.stream));
    EXPECT_FAILS(KEEL_RANK_FAILED, name(0) + ": its send to rank 1 was refused there",
                 other.synchronize());
    EXPECT_KEEL_OK(other.recover());
    EXPECT_KEEL_OK(keel_send(other.comm, other.data, kCount, KEEL_FLOAT32, 0, other.stream));
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "receive is NULL",
                 keel_recv(one.comm, nullptr, kCount, KEEL_FLOAT32, 1, one.stream));
    EXPECT_FAILS(KEEL_RANK_FAILED, name(0) + ": its receive from rank 1 was refused there",
                 other.synchronize());
    EXPECT_KEEL_OK(other.recover());
    // The peer does not exist, so no rank waits.
    EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "peer is 2",
                 keel_send(one.comm, one.data, kCount, KEEL_FLOAT32, 2, one.stream));
    EXPECT_KEEL_OK(keel_send(one.comm, one.data, kCount, KEEL_FLOAT32, 1, one.stream));
    EXPECT_KEEL_OK(keel_recv(other.comm, other.data, kCount, KEEL_FLOAT32, 0, other.stream));
    EXPECT_KEEL_OK(one.synchronize());
    EXPECT_KEEL_OK(other.synchronize());
  }
  expect_whole();
}

// Each rank sends wrongly and receives: alone, the sends would wait in a cycle.
TEST_F(CountedCalls, AGroupGoesOnWithoutTheMessageThatIsRefused) {
  begin(2);
  for (const Rank& own : ranks_) {
    EXPECT_KEEL_OK(keel_group_start());
    EXPECT_FAILS(KEEL_INVALID_HANDLE, "stream",
                 keel_send(own.comm, own.data, 5, KEEL_FLOAT32, 1 - own.rank, {}));
    EXPECT_KEEL_OK(keel_recv(own.comm, own.data + 100, 5, KEEL_FLOAT32, 1 - own.rank, own.stream));
    EXPECT_KEEL_OK(keel_send(own.comm, own.data, 7, KEEL_FLOAT32, 1 - own.rank, own.stream));
    EXPECT_KEEL_OK(keel_recv(own.comm, own.data + 200, 7, KEEL_FLOAT32, 1 - own.rank, own.stream));
    EXPECT_KEEL_OK(keel_group_end());
  }
  for (const Rank& own : ranks_) {
    EXPECT_FAILS(KEEL_RANK_FAILED, "its send to rank", own.synchronize());
    EXPECT_KEEL_OK(own.recover());
  }
  expect_whole();
}

TEST_F(CountedCalls, ASplitThatIsRefusedIsToldToAllOthers) {
  begin(3);
  for (uint32_t wrong = 0; wrong < 3; ++wrong) {
    on_ranks([&](const Rank& own) {
      keel_comm part = {};
      auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
      options.chunk_bytes = wrong == 1 ? 1 : 0;  // refused
      if (own.rank == wrong) {
        EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "",
                     keel_comm_split(own.comm, wrong == 0 ? -5 : 0, 0, &options,
                                     wrong == 2 ? nullptr : &part));
      } else {
        EXPECT_FAILS(KEEL_RANK_FAILED, name(wrong),
                     keel_comm_split(own.comm, 0, 0, nullptr, &part));
      }
      EXPECT_KEEL_OK(keel_comm_split(own.comm, 0, 0, nullptr, &part));
      EXPECT_KEEL_OK(keel_comm_destroy(part));
    });
  }
  expect_whole();
}

// It does not wait for the others, who may never call.
TEST_F(CountedCalls, ARankMayLeaveBehindACallThatWasRefused) {
  begin(2);
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "send is NULL", ranks_[0].all_reduce(nullptr, 5));
  EXPECT_KEEL_OK(keel_comm_finalize(ranks_[0].comm, KEEL_TIMEOUT_DEFAULT));
  EXPECT_KEEL_OK(keel_comm_destroy(ranks_[0].comm));
  EXPECT_KEEL_OK(ranks_[1].all_reduce(ranks_[1].data, 5));
  EXPECT_FAILS(KEEL_RANK_FAILED, "send is NULL", ranks_[1].synchronize());
  EXPECT_KEEL_OK(ranks_[1].recover());
  EXPECT_KEEL_OK(ranks_[1].all_reduce(ranks_[1].data, 5));
  EXPECT_FAILS(KEEL_ABORTED, "left the communicator", ranks_[1].synchronize());
  EXPECT_KEEL_OK(keel_comm_destroy(ranks_[1].comm));
  free_ranks();
}

TEST_F(CountedCalls, AGroupThatIsLeftOpenIsAnErrorOfWhoeverWaits) {
  begin(2);
  const Rank& own = ranks_[0];
  keel_event event = {};
  EXPECT_KEEL_OK(keel_event_create(0, &event));
  EXPECT_KEEL_OK(keel_event_record(event, own.stream));
  EXPECT_KEEL_OK(keel_group_start());
  EXPECT_KEEL_OK(own.all_reduce(own.data, 5));
  constexpr const char* kText = "keel_group_end was not: 1 calls";
  keel_comm part = {};
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, kText, own.synchronize());
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, kText, keel_event_wait(event, KEEL_TIMEOUT_DEFAULT));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, kText, keel_comm_finalize(own.comm, KEEL_TIMEOUT_DEFAULT));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, kText, keel_comm_destroy(own.comm));
  EXPECT_FAILS(KEEL_FAILED_PRECONDITION, kText, keel_comm_split(own.comm, 0, 0, nullptr, &part));
  // Another thread is in none.
  std::thread([&] { EXPECT_KEEL_OK(ranks_[1].synchronize()); }).join();
  EXPECT_KEEL_OK(keel_group_end());
  EXPECT_KEEL_OK(ranks_[1].all_reduce(ranks_[1].data, 5));
  for (const Rank& each : ranks_) EXPECT_KEEL_OK(each.synchronize());
  EXPECT_KEEL_OK(keel_event_destroy(event));
  expect_whole();
}

}  // namespace
