// SPDX-License-Identifier: Apache-2.0
// A fixture with a communicator over given devices, all ranks in one thread.
#ifndef KEEL_COLLECTIVES_TESTING_DEVICE_RANKS_H_
#define KEEL_COLLECTIVES_TESTING_DEVICE_RANKS_H_

#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/testing/reference.h"
#include "collectives/testing/test_rank.h"
#include "core/testing/keel_test.h"

namespace keel::testing {

class DeviceRanks : public KeelTest {
 protected:
  void TearDown() override {
    end_ranks();
    KeelTest::TearDown();
  }

  static keel_comm_options options() {
    auto made = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    made.chunk_bytes = 4096;
    made.timeout_ns = kTestTimeout;
    return made;
  }
  // Creates a rank on each of |devices|, with a stream.
  void make_ranks(std::vector<keel_device> devices, const keel_comm_options& given = options()) {
    end_ranks();
    devices_ = std::move(devices);
    comms_.resize(devices_.size());
    ASSERT_KEEL_OK(keel_comm_init_all(devices_.data(), world(), &given, comms_.data()));
    for (keel_device device : devices_) {
      streams_.emplace_back();
      ASSERT_KEEL_OK(keel_stream_create(device, 0, &streams_.back()));
    }
  }
  void end_ranks() {
    for (keel_comm comm : comms_) keel_comm_destroy(comm);
    for (keel_stream stream : streams_) keel_stream_destroy(stream);
    for (const auto& [where, memory] : buffers_) keel_free(devices_[where.first], memory);
    buffers_.clear();
    comms_.clear();
    streams_.clear();
  }
  uint32_t world() const { return static_cast<uint32_t>(devices_.size()); }
  // Operations of |rank| that used a native library.
  uint64_t native_operations(uint32_t rank = 0) {
    auto stats = KEEL_STRUCT_INIT(keel_comm_stats, KEEL_STRUCT_COMM_STATS);
    EXPECT_KEEL_OK(keel_comm_stats_get(comms_[rank], &stats));
    return stats.native_operations;
  }
  std::string explained() {
    std::string text(16384, '\0');
    uint64_t size = text.size();
    EXPECT_KEEL_OK(keel_comm_explain(comms_[0], text.data(), &size));
    return text.c_str();
  }
  void expect_explained(const std::string& wanted) {
    const std::string text = explained();
    EXPECT_NE(text.find(wanted), std::string::npos) << "no '" << wanted << "' in " << text;
  }

  // Compares with the serial reference; returns the number of rank 0's operations that used a
  // native library.
  uint64_t run(const Case& scenario) {
    const uint64_t before = native_operations();
    const Reference reference(scenario);
    std::vector<CaseRun> runs;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      runs.emplace_back(reference, rank, devices_[rank]);
      EXPECT_EQ(runs.back().prepare(streams_[rank]), "");
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      EXPECT_EQ(runs[rank].call(comms_[rank], streams_[rank]), "");
      EXPECT_EQ(runs[rank].fetch(streams_[rank]), "");
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      EXPECT_KEEL_OK(keel_stream_synchronize(streams_[rank], kTestTimeout)) << scenario.describe();
    }
    for (const CaseRun& each : runs) EXPECT_EQ(each.check(), "") << scenario.describe();
    return native_operations() - before;
  }
  // In place if the count is even.
  Case scenario(Operation operation, keel_dtype dtype, uint64_t count) const {
    Case made;
    made.operation = operation;
    made.dtype = dtype;
    made.world = world();
    made.count = count;
    made.in_place = count % 2 == 0;
    made.seed = static_cast<uint32_t>(count + static_cast<uint32_t>(operation));
    return made;
  }

  // Sums floats that round, and expects the same bits on every rank.
  void expect_same_bits(uint64_t count) {
    std::vector<void*> memory;
    for (uint32_t rank = 0; rank < world(); ++rank) {
      std::vector<uint32_t> values = pattern(count, rank);
      for (uint32_t& value : values) value = value % 0x10000000 + 0x38000000;  // floats
      memory.push_back(alloc_filled(devices_[rank], values));
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory[rank], memory[rank], count, KEEL_FLOAT32,
                                     KEEL_SUM, streams_[rank]));
    }
    for (keel_stream stream : streams_) {
      ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    }
    const std::vector<uint32_t> first = read(devices_[0], memory[0], count);
    for (uint32_t rank = 1; rank < world(); ++rank) {
      EXPECT_EQ(read(devices_[rank], memory[rank], count), first) << "rank " << rank;
    }
    for (uint32_t rank = 0; rank < world(); ++rank) {
      EXPECT_KEEL_OK(keel_free(devices_[rank], memory[rank]));
    }
  }

  // Enqueues one all_reduce of |count| floats on each rank of |ranks|, without waiting.
  void enqueue(const std::vector<uint32_t>& ranks, uint64_t count) {
    for (const uint32_t rank : ranks) {
      void*& memory = buffers_[{rank, count}];
      if (memory == nullptr) memory = alloc(devices_[rank], count * 4);
      ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], memory, memory, count, KEEL_FLOAT32, KEEL_SUM,
                                     streams_[rank]));
    }
  }
  void enqueue(uint64_t count) {
    std::vector<uint32_t> ranks(world());
    std::iota(ranks.begin(), ranks.end(), 0);
    enqueue(ranks, count);
  }
  // Expects |rank|'s wait to end with |code| and a text that contains all |texts|.
  void expect_failure(uint32_t rank, keel_status code, const std::vector<std::string>& texts) {
    EXPECT_EQ(keel_stream_synchronize(streams_[rank], kTestTimeout), code) << "rank " << rank;
    const std::string said = keel_last_error();
    for (const std::string& text : texts) {
      EXPECT_NE(said.find(text), std::string::npos) << "no '" << text << "' in " << said;
    }
  }

  void set_timeout(int64_t timeout_ns) {
    for (keel_comm comm : comms_) ASSERT_KEEL_OK(keel_comm_timeout_set(comm, timeout_ns));
  }

  // ---- failures of a native library, which the emulated chip's faults cause ----

  // The first operation hangs on rank 1, and the library's abort ends it.
  void expect_hang_ends_at_deadline(const std::vector<keel_device>& devices) {
    make_ranks(devices);
    set_timeout(kSecond);
    enqueue(1000);
    for (uint32_t rank = 0; rank < world(); ++rank) {
      expect_failure(rank, KEEL_TIMED_OUT, {"native all_reduce did not end in time"});
    }
    make_ranks(devices);
    EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
  }
  // The first operation hangs on rank 1, and nothing ends it: the devices are lost.
  void expect_hang_loses_devices(const std::vector<keel_device>& devices) {
    make_ranks(devices);
    set_timeout(kSecond);
    enqueue(1000);
    for (keel_stream stream : streams_) {
      EXPECT_NE(keel_stream_synchronize(stream, kTestTimeout), KEEL_OK);
    }
    end_ranks();
    for (keel_device device : devices) {
      void* memory = nullptr;
      EXPECT_EQ(keel_alloc(device, KEEL_MEMORY_DEVICE, 1 << 20, &memory), KEEL_DEVICE_LOST);
    }
  }
  // Rank 0 of three loses its device, |name|, in the first operation.
  void expect_lost_device_is_named(const std::vector<keel_device>& devices,
                                   const std::string& name) {
    make_ranks(devices);
    set_timeout(20 * kSecond);
    enqueue(1000);
    for (uint32_t rank = 1; rank < 3; ++rank) {
      expect_failure(rank, KEEL_DEVICE_LOST, {"rank 0 (" + name + ")"});
    }
    make_ranks({devices[1], devices[2]});
    EXPECT_EQ(run(scenario(Operation::kAllReduce, KEEL_FLOAT32, 5000)), 1u);
  }
  // The first operation hangs on rank 1 of three, and rank 2 aborts.
  void expect_abort_ends_all(const std::vector<keel_device>& devices) {
    make_ranks(devices);
    enqueue(100'000);
    std::thread aborting([&] { EXPECT_KEEL_OK(keel_comm_abort(comms_[2])); });
    for (uint32_t rank = 0; rank < 3; ++rank) {
      expect_failure(rank, KEEL_ABORTED, {"rank 2 aborted"});
    }
    aborting.join();
  }

  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
  std::vector<keel_stream> streams_;
  std::map<std::pair<uint32_t, uint64_t>, void*> buffers_;  // of enqueue(), by rank and count
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_DEVICE_RANKS_H_
