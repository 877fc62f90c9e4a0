// SPDX-License-Identifier: Apache-2.0
// Slots of the collectives table in uses that core does not make: reasons, the library's own
// deadlines, buffers, in-place all-to-all on several streams.
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/testing/own_driver.h"
#include "backends/cuda/testing/queried_plugin.h"

namespace keel::testing {
namespace {

constexpr int64_t kTestTimeout = 60'000'000'000;
constexpr uint32_t kWorld = 2;

// Two devices with a stream and, after meet(), one rank each.
class CudaCclSlotsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    plugin_ = query_plugin();
    ASSERT_NE(plugin_, nullptr);
    ASSERT_NE(plugin_->ccl, nullptr);
  }
  void TearDown() override {
    for (keel_plugin_comm* comm : comms_) {
      if (comm != nullptr) plugin_->ccl->destroy(comm);
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      for (void* memory : memory_[rank]) {
        EXPECT_EQ(plugin_->memory->free(devices_[rank], KEEL_MEMORY_DEVICE, memory), KEEL_OK);
      }
      for (keel_plugin_stream* stream : streams_[rank]) plugin_->stream->destroy(stream);
      if (devices_[rank] != nullptr) plugin_->device->close(devices_[rank]);
    }
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
  }

  // Uses |library| as NCCL; empty: none.
  void open(const std::string& library, const std::string& settings = "") {
    if (!library.empty()) driver_.add_nccl(library, settings);
    const char* const key = "library_folder";
    const char* const value = driver_.folder().c_str();
    const keel_instance_settings given = {
        {sizeof(given), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
    ASSERT_EQ(plugin_->create_instance(&given, &instance_), KEEL_OK) << t_error;
    for (uint32_t i = 0; i < kWorld; ++i) {
      ASSERT_EQ(plugin_->device->open(instance_, i, &devices_[i]), KEEL_OK) << t_error;
      new_stream(i);
    }
  }
  keel_plugin_stream* new_stream(uint32_t rank) {
    keel_plugin_stream* stream = nullptr;
    EXPECT_EQ(plugin_->stream->create(devices_[rank], 0, &stream), KEEL_OK) << t_error;
    streams_[rank].push_back(stream);
    return stream;
  }
  std::vector<char> new_id() {
    std::vector<char> id(4096);
    uint64_t size = id.size();
    EXPECT_EQ(plugin_->ccl->unique_id(devices_[0], id.data(), &size), KEEL_OK) << t_error;
    id.resize(size);
    return id;
  }
  static void each_rank(const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }
  void meet(int64_t timeout_ns = kTestTimeout) {
    const std::vector<char> id = new_id();
    each_rank([&](uint32_t rank) {
      EXPECT_EQ(
          plugin_->ccl->init_rank(devices_[rank], id.data(), id.size(), static_cast<int32_t>(rank),
                                  kWorld, timeout_ns, &comms_[rank]),
          KEEL_OK)
          << t_error;
    });
  }
  // Device memory that contains |words|.
  uint32_t* filled(uint32_t rank, const std::vector<uint32_t>& words) {
    void* memory = nullptr;
    EXPECT_EQ(
        plugin_->memory->alloc(devices_[rank], KEEL_MEMORY_DEVICE, words.size() * 4, 0, &memory),
        KEEL_OK)
        << t_error;
    memory_[rank].push_back(memory);
    EXPECT_EQ(plugin_->stream->copy(streams_[rank][0], KEEL_COPY_HOST_TO_DEVICE, memory,
                                    words.data(), words.size() * 4),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(settle(streams_[rank][0]), KEEL_OK);
    return static_cast<uint32_t*>(memory);
  }
  std::vector<uint32_t> read(uint32_t rank, const uint32_t* memory, size_t count) {
    std::vector<uint32_t> words(count);
    EXPECT_EQ(plugin_->stream->copy(streams_[rank][0], KEEL_COPY_DEVICE_TO_HOST, words.data(),
                                    memory, count * 4),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(settle(streams_[rank][0]), KEEL_OK);
    return words;
  }
  keel_status settle(keel_plugin_stream* stream) const {
    keel_status status = KEEL_NOT_READY;
    while ((status = plugin_->stream->query(stream)) == KEEL_NOT_READY) std::this_thread::yield();
    return status;
  }
  static keel_ccl_call call(keel_collective collective, const void* send, void* receive,
                            uint64_t count) {
    keel_ccl_call made = {};
    made.header = {sizeof(made), KEEL_STRUCT_CCL_CALL, nullptr};
    made.collective = collective;
    made.dtype = KEEL_UINT32;
    made.reduction = KEEL_SUM;
    made.send = send;
    made.receive = receive;
    made.count = count;
    return made;
  }
  keel_status run(uint32_t rank, const std::vector<keel_ccl_call>& calls, size_t stream = 0) {
    return plugin_->ccl->run(comms_[rank], streams_[rank][stream], calls.data(),
                             static_cast<uint32_t>(calls.size()));
  }
  // Expects a failure of the library query whose reason contains all |texts|.
  void expect_unusable(const std::vector<std::string>& texts) {
    keel_ccl_info info = {};
    info.header = {sizeof(info), KEEL_STRUCT_CCL_INFO, nullptr};
    EXPECT_EQ(plugin_->ccl->info(instance_, &info), KEEL_UNSUPPORTED);
    for (const std::string& text : texts) {
      EXPECT_NE(t_error.find(text), std::string::npos) << "no '" << text << "' in " << t_error;
    }
    char id[128];
    uint64_t size = sizeof(id);
    keel_plugin_comm* comm = nullptr;
    EXPECT_EQ(plugin_->ccl->unique_id(devices_[0], id, &size), KEEL_UNSUPPORTED);
    EXPECT_EQ(plugin_->ccl->init_rank(devices_[0], id, size, 0, 1, kTestTimeout, &comm),
              KEEL_UNSUPPORTED);
    EXPECT_EQ(plugin_->ccl->capability(instance_, KEEL_ALL_REDUCE, KEEL_FLOAT32, KEEL_SUM),
              KEEL_UNSUPPORTED);
  }

  const OwnDriver driver_{"devices=2 memory_mib=64"};
  const keel_plugin* plugin_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  std::array<keel_plugin_device*, kWorld> devices_ = {};
  std::array<std::vector<keel_plugin_stream*>, kWorld> streams_;
  std::array<std::vector<void*>, kWorld> memory_;
  std::array<keel_plugin_comm*, kWorld> comms_ = {};
};

// ---- libraries that cannot be used ---------------------------------------------------

TEST_F(CudaCclSlotsTest, NoLibrary) {
  open("");
  expect_unusable({"no NCCL", driver_.folder() + "/libnccl.so.2"});
}

TEST_F(CudaCclSlotsTest, ALibraryThatIsTooOld) {
  open(KEEL_EMULATED_NCCL_FILE, "version=21307");
  expect_unusable({driver_.folder(), "NCCL 2.13.7, too old", "2.14.0"});
}

TEST_F(CudaCclSlotsTest, MissingSymbolsAreNamed) {
  open(KEEL_EMULATED_NCCL_BARE);
  expect_unusable({"symbols missing: ncclAllGather, ncclAllReduce, ", ", ncclSend"});
  EXPECT_EQ(t_error.find("ncclGroupStart"), std::string::npos);
}

// ---- what it can do ------------------------------------------------------------------

TEST_F(CudaCclSlotsTest, WhatItIsAndCanDo) {
  open(KEEL_EMULATED_NCCL_FILE);
  keel_ccl_info info = {};
  info.header = {sizeof(info), KEEL_STRUCT_CCL_INFO, nullptr};
  ASSERT_EQ(plugin_->ccl->info(instance_, &info), KEEL_OK);
  EXPECT_STREQ(info.library, "NCCL 2.28.9");
  EXPECT_EQ(info.reach, keel_ccl_reach{KEEL_CCL_NETWORK});
  const auto can = [&](keel_collective collective, keel_dtype dtype, keel_reduction reduction) {
    return plugin_->ccl->capability(instance_, collective, dtype, reduction) == KEEL_OK;
  };
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    const bool has = dtype != KEEL_INT16 && dtype != KEEL_UINT16 && dtype != KEEL_FLOAT8_E4M3FN &&
                     dtype != KEEL_FLOAT8_E5M2;
    for (keel_reduction reduction = 0; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      EXPECT_EQ(can(KEEL_ALL_REDUCE, dtype, reduction), has);
      EXPECT_EQ(can(KEEL_REDUCE_SCATTER, dtype, reduction), has);
    }
    EXPECT_EQ(can(KEEL_BROADCAST, dtype, KEEL_SUM), has);
    EXPECT_EQ(can(KEEL_ALL_TO_ALL, dtype, KEEL_SUM), has);
    EXPECT_EQ(can(KEEL_SEND, dtype, KEEL_SUM), has);
    EXPECT_EQ(can(KEEL_RECV, dtype, KEEL_SUM), has);
    EXPECT_FALSE(can(KEEL_ALL_TO_ALL_V, dtype, KEEL_SUM));
  }
  uint64_t size = 8;
  char id[8];
  EXPECT_EQ(plugin_->ccl->unique_id(devices_[0], id, &size), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(size, 128u);
}

TEST_F(CudaCclSlotsTest, WhatItHasNotIsUnsupportedAndHasNoEffect) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  uint32_t* const data[] = {filled(0, {1, 2}), filled(1, {10, 20})};
  keel_ccl_call odd = call(KEEL_ALL_REDUCE, data[0], data[0], 1);
  odd.dtype = KEEL_INT16;
  EXPECT_EQ(run(0, {call(KEEL_ALL_REDUCE, data[0], data[0], 2), odd}), KEEL_UNSUPPORTED);
  EXPECT_NE(t_error.find("int16"), std::string::npos) << t_error;
  EXPECT_EQ(run(0, {call(KEEL_GATHER, data[0], data[0], 2)}), KEEL_UNSUPPORTED);
  // Nothing was enqueued: the next calls of both ranks still match.
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_EQ(run(rank, {call(KEEL_ALL_REDUCE, data[rank], data[rank], 2)}), KEEL_OK) << t_error;
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank, data[rank], 2), (std::vector<uint32_t>{11, 22}));
    EXPECT_EQ(plugin_->ccl->async_error(comms_[rank]), KEEL_OK);
  }
}

TEST_F(CudaCclSlotsTest, CallsOfOneGroup) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  uint32_t* data[kWorld];
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    data[rank] = filled(rank, {1 + rank, 10 + rank, 100 + rank, 7, 7});
    keel_ccl_call scaled = call(KEEL_ALL_REDUCE, data[rank] + 1, data[rank] + 1, 1);
    scaled.reduction = KEEL_PREMUL_SUM;
    scaled.factor = 3;
    keel_ccl_call largest = call(KEEL_ALL_REDUCE, data[rank] + 2, data[rank] + 2, 1);
    largest.reduction = KEEL_MAX;
    ASSERT_EQ(run(rank, {call(KEEL_ALL_REDUCE, data[rank], data[rank], 1), scaled, largest,
                         call(KEEL_ALL_GATHER, data[rank], data[rank] + 3, 1)}),
              KEEL_OK)
        << t_error;
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank, data[rank], 5), (std::vector<uint32_t>{3, 63, 101, 3, 3}));
  }
}

TEST_F(CudaCclSlotsTest, MessagesOfAGroupGoOnTogether) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  uint32_t* data[kWorld];
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    data[rank] = filled(rank, {1 + rank, 10 + rank, 7, 7});
    const auto other = static_cast<int32_t>(1 - rank);
    keel_ccl_call received = call(KEEL_RECV, nullptr, data[rank] + 2, 2);
    received.root = other;
    keel_ccl_call sent = call(KEEL_SEND, data[rank], nullptr, 2);
    sent.root = other;
    ASSERT_EQ(run(rank, {received, sent}), KEEL_OK) << t_error;
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(read(rank, data[rank], 4),
              (std::vector<uint32_t>{1 + rank, 10 + rank, 2 - rank, 11 - rank}));
  }
}

// NCCL has no in-place all-to-all: the send buffer is copied, and each copy waits for the previous
// one, on any stream.
TEST_F(CudaCclSlotsTest, ExchangesInPlaceOneAfterTheOther) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  constexpr uint32_t kPiece = 400'000;  // the copies grow
  constexpr size_t kRounds = 6;
  uint32_t* data[kWorld][kRounds];
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    new_stream(rank);
    for (size_t round = 0; round < kRounds; ++round) {
      std::vector<uint32_t> words(kWorld * kPiece);
      for (uint32_t i = 0; i < words.size(); ++i) {
        words[i] = static_cast<uint32_t>(round * 1000 + rank * 10 + i / kPiece);
      }
      data[rank][round] = filled(rank, words);
    }
  }
  for (size_t round = 0; round < kRounds; round += 2) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      std::vector<keel_ccl_call> calls;
      for (uint32_t* each : {data[rank][round], data[rank][round + 1]}) {
        calls.push_back(call(KEEL_ALL_TO_ALL, each, each, round == 0 ? 1000 : kPiece));
      }
      ASSERT_EQ(run(rank, calls, round / 2 % 2), KEEL_OK) << t_error;
    }
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    for (keel_plugin_stream* stream : streams_[rank]) EXPECT_EQ(settle(stream), KEEL_OK);
    for (size_t round = 2; round < kRounds; ++round) {
      const std::vector<uint32_t> got = read(rank, data[rank][round], kWorld * kPiece);
      for (uint32_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], round * 1000 + i / kPiece * 10 + rank) << round << ", " << i;
      }
    }
  }
}

TEST_F(CudaCclSlotsTest, Buffers) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  uint32_t* const data = filled(0, {1, 2});
  void* registration = nullptr;
  ASSERT_EQ(plugin_->ccl->register_buffer(comms_[0], data, 8, &registration), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->ccl->deregister_buffer(comms_[0], registration), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->ccl->deregister_buffer(comms_[0], registration), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(t_error.find("ncclCommDeregister"), std::string::npos) << t_error;
}

TEST_F(CudaCclSlotsTest, BuffersOfAnOlderLibrary) {
  open(KEEL_EMULATED_NCCL_OLDER, "version=21701");
  meet();
  void* registration = nullptr;
  EXPECT_EQ(plugin_->ccl->register_buffer(comms_[0], filled(0, {1}), 4, &registration),
            KEEL_UNSUPPORTED);
  EXPECT_NE(t_error.find("NCCL 2.17.1 registers no buffers"), std::string::npos) << t_error;
  EXPECT_EQ(plugin_->ccl->capability(instance_, KEEL_ALL_TO_ALL, KEEL_FLOAT32, KEEL_SUM),
            KEEL_UNSUPPORTED);
}

// ---- splits -----------------------------------------------------------------------------

TEST_F(CudaCclSlotsTest, PartsInAnOrderOfTheirOwn) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  const uint32_t reversed[] = {1, 0};
  std::array<keel_plugin_comm*, kWorld> parts = {};
  each_rank([&](uint32_t rank) {
    EXPECT_EQ(plugin_->ccl->split(comms_[rank], reversed, 2, 1 - rank, kTestTimeout, &parts[rank]),
              KEEL_OK)
        << t_error;
  });
  ASSERT_NE(parts[0], nullptr);
  ASSERT_NE(parts[1], nullptr);
  // The parts outlive the whole.
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    plugin_->ccl->destroy(comms_[rank]);
    comms_[rank] = parts[rank];
  }
  uint32_t* gathered[kWorld] = {};
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    uint32_t* const own = filled(rank, {rank + 70});
    gathered[rank] = filled(rank, {0, 0});
    EXPECT_EQ(run(rank, {call(KEEL_ALL_GATHER, own, gathered[rank], 1)}), KEEL_OK) << t_error;
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(settle(streams_[rank][0]), KEEL_OK) << t_error;
    EXPECT_EQ(read(rank, gathered[rank], 2), (std::vector<uint32_t>{71, 70}));
  }
}

TEST_F(CudaCclSlotsTest, APartOfOneAndARankInNone) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  std::array<keel_plugin_comm*, kWorld> parts = {};
  parts[0] = comms_[0];  // overwritten by split
  each_rank([&](uint32_t rank) {
    EXPECT_EQ(plugin_->ccl->split(comms_[rank], &rank, rank, 0, kTestTimeout, &parts[rank]),
              KEEL_OK)
        << t_error;
  });
  EXPECT_EQ(parts[0], nullptr);
  ASSERT_NE(parts[1], nullptr);
  plugin_->ccl->destroy(parts[1]);
  // The whole is unchanged.
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    uint32_t* const data = filled(rank, {rank + 1});
    EXPECT_EQ(run(rank, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_OK) << t_error;
  }
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(settle(streams_[rank][0]), KEEL_OK) << t_error;
    EXPECT_EQ(read(rank, static_cast<uint32_t*>(memory_[rank].back()), 1),
              std::vector<uint32_t>{3});
  }
}

TEST_F(CudaCclSlotsTest, SplitsOfAnOlderLibrary) {
  open(KEEL_EMULATED_NCCL_OLDER, "version=21701");
  meet();
  const uint32_t both[] = {0, 1};
  keel_plugin_comm* part = nullptr;
  EXPECT_EQ(plugin_->ccl->split(comms_[0], both, 2, 0, kTestTimeout, &part), KEEL_UNSUPPORTED);
  EXPECT_NE(t_error.find("NCCL 2.17.1 splits no communicators"), std::string::npos) << t_error;
  EXPECT_EQ(part, nullptr);
}

TEST_F(CudaCclSlotsTest, ASplitThatNotAllCall) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  const uint32_t both[] = {0, 1};
  keel_plugin_comm* part = nullptr;
  EXPECT_EQ(plugin_->ccl->split(comms_[0], both, 2, 0, 20'000'000, &part), KEEL_TIMED_OUT);
  EXPECT_NE(t_error.find("not all ranks came in time"), std::string::npos) << t_error;
  EXPECT_EQ(part, nullptr);
  // The state of the other rank is unknown: the communicator is aborted.
  EXPECT_EQ(plugin_->ccl->split(comms_[0], both, 2, 0, kTestTimeout, &part), KEEL_ABORTED);
}

TEST_F(CudaCclSlotsTest, ASplitEndsByAnAbortOfAnotherThread) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  const uint32_t both[] = {0, 1};
  keel_plugin_comm* part = nullptr;
  std::thread aborting([&] { EXPECT_EQ(plugin_->ccl->abort(comms_[0]), KEEL_OK); });
  // Before or after the abort, the split fails.
  EXPECT_EQ(plugin_->ccl->split(comms_[0], both, 2, 0, kTestTimeout, &part), KEEL_ABORTED);
  aborting.join();
  EXPECT_EQ(part, nullptr);
}

// ---- rendezvous and ending -----------------------------------------------------------------

TEST_F(CudaCclSlotsTest, ARankThatDoesNotCome) {
  open(KEEL_EMULATED_NCCL_FILE);
  const std::vector<char> id = new_id();
  EXPECT_EQ(
      plugin_->ccl->init_rank(devices_[0], id.data(), id.size(), 0, 2, 20'000'000, &comms_[0]),
      KEEL_TIMED_OUT);
  EXPECT_NE(t_error.find("not all 2 ranks came in time"), std::string::npos) << t_error;
  EXPECT_EQ(comms_[0], nullptr);
  // Device and library still work.
  meet();
}

TEST_F(CudaCclSlotsTest, IdsOfOthers) {
  open(KEEL_EMULATED_NCCL_FILE);
  const std::vector<char> id(128, 'x');
  EXPECT_EQ(
      plugin_->ccl->init_rank(devices_[0], id.data(), id.size(), 0, 2, kTestTimeout, &comms_[0]),
      KEEL_INVALID_ARGUMENT);
  EXPECT_NE(t_error.find("the unique id is none of this process"), std::string::npos) << t_error;
  EXPECT_EQ(plugin_->ccl->init_rank(devices_[0], id.data(), 64, 0, 2, kTestTimeout, &comms_[0]),
            KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(comms_[0], nullptr);
}

TEST_F(CudaCclSlotsTest, AnAbortEndsWhatWaitsForTheOthers) {
  open(KEEL_EMULATED_NCCL_FILE);
  meet();
  uint32_t* const data = filled(0, {1});
  ASSERT_EQ(run(0, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_OK) << t_error;
  EXPECT_EQ(plugin_->stream->query(streams_[0][0]), KEEL_NOT_READY);
  ASSERT_EQ(plugin_->ccl->abort(comms_[0]), KEEL_OK);
  // The stream is usable afterwards.
  EXPECT_EQ(settle(streams_[0][0]), KEEL_OK) << t_error;
  EXPECT_EQ(read(0, data, 1), std::vector<uint32_t>{1});
  EXPECT_EQ(run(0, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_ABORTED);
  EXPECT_EQ(plugin_->ccl->async_error(comms_[0]), KEEL_ABORTED);
  // The other rank observes the abort.
  EXPECT_EQ(plugin_->ccl->async_error(comms_[1]), KEEL_UNAVAILABLE);
  EXPECT_NE(t_error.find("rank 0 has aborted"), std::string::npos) << t_error;
}

// A library that does not enqueue a call, for example because a rank cannot be connected.
TEST_F(CudaCclSlotsTest, ACallThatIsStuckEndsAtTheDeadline) {
  open(KEEL_EMULATED_NCCL_FILE, "stuck=1");
  meet(/*timeout_ns=*/1'000'000'000);
  uint32_t* const data = filled(0, {1});
  EXPECT_EQ(run(0, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_TIMED_OUT);
  EXPECT_NE(t_error.find("ncclGroupEnd"), std::string::npos) << t_error;
  EXPECT_EQ(run(0, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_ABORTED);
  EXPECT_EQ(settle(streams_[0][0]), KEEL_OK);
}

TEST_F(CudaCclSlotsTest, ACallThatIsStuckEndsByAnAbortOfAnotherThread) {
  open(KEEL_EMULATED_NCCL_FILE, "stuck=1");
  meet();
  uint32_t* const data = filled(0, {1});
  std::thread aborting([&] { EXPECT_EQ(plugin_->ccl->abort(comms_[0]), KEEL_OK); });
  // Before or after the abort, the call fails.
  EXPECT_EQ(run(0, {call(KEEL_ALL_REDUCE, data, data, 1)}), KEEL_ABORTED);
  aborting.join();
  EXPECT_EQ(settle(streams_[0][0]), KEEL_OK);
}

}  // namespace
}  // namespace keel::testing
