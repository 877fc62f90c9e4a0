// SPDX-License-Identifier: Apache-2.0
// Test fixture: a chip and a CPU device, two ranks of one process, run all_reduces.
#ifndef KEEL_COLLECTIVES_TESTING_REDUCING_PAIR_H_
#define KEEL_COLLECTIVES_TESTING_REDUCING_PAIR_H_

#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {

// Memory of the CPU rank's buffers.
enum class HostMemory {
  kArena,      // of the CPU device
  kPinned,     // of the chip, registered with the CPU device
  kRegistered  // of the CPU device, registered with the chip
};

class ReducingPair : public KeelTest {
 protected:
  struct Rank {
    keel_device device{};
    keel_comm comm{};
    keel_stream stream{};
    char* send = nullptr;
    char* receive = nullptr;
  };
  static constexpr uint64_t kSlack = 64;  // bytes behind each buffer, for calls with an offset

  // The CPU is rank |cpu_rank| of two.
  void connect(keel_device chip, uint64_t bytes, HostMemory send, HostMemory receive,
               uint32_t cpu_rank = 0, uint64_t chunk_bytes = 0, int64_t timeout_ns = kTestTimeout) {
    auto options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    options.timeout_ns = timeout_ns;
    options.chunk_bytes = chunk_bytes;
    connect(chip, bytes, send, receive, cpu_rank, options);
  }
  void connect(keel_device chip, uint64_t bytes, HostMemory send, HostMemory receive,
               uint32_t cpu_rank, const keel_comm_options& options) {
    if (cpu_.id == 0) cpu_ = load("cpu", {{"devices", "1"}}).at(0);
    chip_ = chip;
    cpu_rank_ = cpu_rank;
    keel_device devices[2];
    devices[cpu_rank] = cpu_;
    devices[1 - cpu_rank] = chip;
    keel_comm comms[2];
    ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, &options, comms));
    ranks_.assign(2, {});
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Rank& of = ranks_[rank];
      of.device = devices[rank];
      of.comm = comms[rank];
      ASSERT_KEEL_OK(keel_stream_create(of.device, 0, &of.stream));
      const bool is_cpu = rank == cpu_rank;
      of.send = buffer(is_cpu ? send : HostMemory::kArena, of.device, bytes + kSlack);
      of.receive = buffer(is_cpu ? receive : HostMemory::kArena, of.device, bytes + kSlack);
    }
  }
  void disconnect() {
    for (const Rank& rank : ranks_) {
      keel_comm_destroy(rank.comm);
      EXPECT_KEEL_OK(keel_stream_destroy(rank.stream));
      give_back(rank.send);
      give_back(rank.receive);
    }
    ranks_.clear();
  }
  void TearDown() override {
    disconnect();
    KeelTest::TearDown();
  }

  const Rank& cpu() const { return ranks_[cpu_rank_]; }
  const Rank& chip() const { return ranks_[1 - cpu_rank_]; }

  // Copy between the host and a buffer of the rank, whose stream must be idle.
  void upload(const Rank& of, char* to, const std::vector<char>& bytes) {
    if (is_pinned(to)) {
      std::memcpy(to, bytes.data(), bytes.size());
      return;
    }
    ASSERT_KEEL_OK(keel_copy(of.stream, of.device, to, KEEL_HOST, bytes.data(), bytes.size()));
    ASSERT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
  }
  std::vector<char> download(const Rank& of, const char* from, uint64_t bytes) {
    std::vector<char> found(bytes);
    if (is_pinned(from)) {
      EXPECT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
      std::memcpy(found.data(), from, bytes);
      return found;
    }
    EXPECT_KEEL_OK(keel_copy(of.stream, KEEL_HOST, found.data(), of.device, from, bytes));
    EXPECT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
    return found;
  }

  // Parameters of one all_reduce; the buffers begin |offset| bytes late.
  struct Call {
    uint64_t count = 0;
    keel_dtype dtype = KEEL_FLOAT32;
    bool in_place = false;
    uint64_t offset = 0;
    keel_reduction reduction = KEEL_SUM;
  };
  char* result_of(const Rank& of, const Call& call) const {
    return (call.in_place ? of.send : of.receive) + call.offset;
  }
  keel_status enqueue(const Rank& of, const Call& call) {
    return keel_all_reduce(of.comm, of.send + call.offset, result_of(of, call), call.count,
                           call.dtype, call.reduction, of.stream);
  }
  // Runs the all_reduce on both ranks and returns the result of each.
  std::vector<std::vector<char>> results(const Call& call, const std::vector<char> (&values)[2]) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      upload(ranks_[rank], ranks_[rank].send + call.offset, values[rank]);
    }
    for (const Rank& of : ranks_) EXPECT_KEEL_OK(enqueue(of, call));
    std::vector<std::vector<char>> found;
    for (const Rank& of : ranks_) {
      EXPECT_KEEL_OK(keel_stream_synchronize(of.stream, kTestTimeout));
      found.push_back(download(of, result_of(of, call), values[0].size()));
    }
    return found;
  }

  // Returns float32 values of all magnitudes; no two sums are alike.
  static std::vector<char> floats(uint64_t count, uint32_t seed) {
    std::vector<char> bytes(count * sizeof(float));
    uint32_t state = 2654435761u * (seed + 1);
    for (uint64_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      const float value = (static_cast<float>(state >> 8) - 8388608.0f) * (state % 7 == 0   ? 1e-6f
                                                                           : state % 5 == 0 ? 1e3f
                                                                                            : 1.0f);
      std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
    }
    return bytes;
  }
  static float float_at(const std::vector<char>& bytes, uint64_t index) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
    return value;
  }
  // Compares every bit of both ranks' sums.
  void check_floats(const Call& call, uint32_t seed) {
    const std::vector<char> values[2] = {floats(call.count, seed), floats(call.count, seed + 1000)};
    std::vector<char> wanted(values[0].size());
    for (uint64_t i = 0; i < call.count; ++i) {
      const float sum = float_at(values[0], i) + float_at(values[1], i);
      std::memcpy(wanted.data() + i * sizeof(sum), &sum, sizeof(sum));
    }
    const auto found = results(call, values);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(found[rank] == wanted) << "rank " << rank << ", " << call.count << " elements at "
                                         << call.offset << (call.in_place ? ", in place" : "");
      // The send buffer is unchanged.
      if (call.in_place) continue;
      EXPECT_TRUE(download(ranks_[rank], ranks_[rank].send + call.offset, values[rank].size()) ==
                  values[rank])
          << "rank " << rank;
    }
  }

  nlohmann::json last(const Rank& of) {
    std::string text(1 << 16, '\0');
    uint64_t size = text.size();
    EXPECT_KEEL_OK(keel_comm_explain(of.comm, text.data(), &size));
    const auto told = nlohmann::json::parse(text.c_str(), nullptr, /*allow_exceptions=*/false);
    return told.is_object() ? told["last"] : nlohmann::json();
  }
  // Device that reduced the last operation that took rounds, if both ranks agree: "device" or
  // "host".
  std::string reduced_by() {
    std::string by[2];
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const auto told = last(ranks_[rank]);
      if (told.is_object()) by[rank] = told["reduced_by"].get<std::string>();
    }
    return by[0] == by[1] ? by[0] : by[0] + " and " + by[1];
  }

  keel_device cpu_{};
  keel_device chip_{};
  uint32_t cpu_rank_ = 0;
  std::vector<Rank> ranks_;

 private:
  struct Block {
    HostMemory kind;
    keel_device device;
    const char* end;
  };

  bool is_pinned(const char* pointer) const {
    const auto next = blocks_.upper_bound(pointer);
    return next != blocks_.begin() && std::prev(next)->second.kind == HostMemory::kPinned &&
           pointer < std::prev(next)->second.end;
  }
  char* buffer(HostMemory kind, keel_device device, uint64_t bytes) {
    void* pointer = nullptr;
    if (kind == HostMemory::kPinned) {
      EXPECT_KEEL_OK(keel_alloc(chip_, KEEL_MEMORY_PINNED, bytes, &pointer));
      EXPECT_KEEL_OK(keel_host_register(device, pointer, bytes));
    } else {
      EXPECT_KEEL_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, bytes, &pointer));
      if (kind == HostMemory::kRegistered) {
        EXPECT_KEEL_OK(keel_host_register(chip_, pointer, bytes));
      }
    }
    auto* const begin = static_cast<char*>(pointer);
    blocks_[begin] = {kind, device, begin + bytes};
    return begin;
  }
  void give_back(char* pointer) {
    const Block block = blocks_.at(pointer);
    blocks_.erase(pointer);
    if (block.kind == HostMemory::kPinned) {
      EXPECT_KEEL_OK(keel_host_unregister(block.device, pointer));
      EXPECT_KEEL_OK(keel_free(chip_, pointer));
      return;
    }
    // A lost device has no registration to undo.
    if (block.kind == HostMemory::kRegistered) (void)keel_host_unregister(chip_, pointer);
    EXPECT_KEEL_OK(keel_free(block.device, pointer));
  }

  std::map<const char*, Block> blocks_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_REDUCING_PAIR_H_
