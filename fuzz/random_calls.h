// SPDX-License-Identifier: Apache-2.0
// Makes calls of keel.h in any order with any arguments that the API allows: invalid handles, wild
// device pointers, sizes past the end, structs of the wrong type. Conditions that only the caller
// can ensure are kept: host memory is real, and accesses to the same memory are ordered.
#ifndef KEEL_FUZZ_RANDOM_CALLS_H_
#define KEEL_FUZZ_RANDOM_CALLS_H_

#include <keel/keel.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "fuzz/bytes.h"

namespace keel::fuzz {

// A stream and the memory that only this stream uses. Work enqueued on a lane is ordered, so that
// no two calls race for data, however wild their arguments.
struct Lane {
  struct Block {
    keel_device device;
    char* base;
    uint64_t size;
    keel_memory_kind kind;

    // Integer arithmetic: |base| may be any address, and pointer arithmetic would be undefined.
    char* at(uint64_t offset) const {
      return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(base) + offset);
    }
  };

  keel_device device = {};
  std::atomic<uint64_t> stream{0};
  std::mutex mutex;  // held to enqueue work on the memory or end the stream
  std::vector<Block> blocks;
  alignas(64) std::array<char, 4096> host = {};    // written by copies
  alignas(64) std::array<char, 4096> source = {};  // read by copies, some at enqueue time
};

// The objects shared by all threads' calls. Keel must stay initialized during the lifetime.
class World {
 public:
  explicit World(std::vector<keel_device> devices);
  // Destroys the remaining objects. To read problem() afterwards, call finish() first.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Destroys all objects; every handle must still be consistent.
  void finish();
  // Returns the first rule that a call broke; empty if none.
  std::string problem();
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  // Number of calls that succeeded: a world in which all calls are refused tests little.
  uint64_t successes() const { return successes_.load(std::memory_order_relaxed); }

 private:
  friend class RandomCalls;
  static constexpr size_t kLanes = 8;
  static constexpr size_t kEvents = 12;
  static constexpr size_t kGates = 6;
  static constexpr uint32_t kRanks = 3;  // the communicator's ranks are the first lanes

  // Records a call's status, and whether a failure came with a text.
  void check(const char* call, keel_status status);
  void report(const char* call, keel_status status, const char* why);

  const std::vector<keel_device> devices_;
  std::array<Lane, kLanes> lanes_;
  std::array<std::atomic<uint64_t>, kEvents> events_ = {};
  std::array<std::atomic<uint64_t>, kGates> gates_ = {};
  std::mutex comm_mutex_;  // held to create and destroy the communicator
  std::array<std::atomic<uint64_t>, kRanks> comm_ = {};
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> successes_{0};
  std::atomic<int> kernels_{0};
  std::mutex problem_mutex_;
  std::string problem_;
};

// Turns bytes into calls on a world. One object per thread. random_arguments.cc draws arguments;
// random_streams.cc, random_memory.cc, random_operators.cc and random_collectives.cc make the
// calls; random_calls.cc makes device calls and draws the next call.
class RandomCalls {
 public:
  explicit RandomCalls(World& world) : world_(world) {}

  // Makes calls until |bytes| are consumed.
  void run(Bytes bytes);

 private:
  static constexpr int64_t kMillisecond = 1'000'000;
  using Call = void (RandomCalls::*)();
  struct Weighted {
    Call call;
    uint32_t weight;
  };

  // Arguments.
  keel_device device();
  uint64_t handle(uint64_t usual);
  keel_stream stream() { return {handle(lane().stream)}; }
  keel_event event() { return {handle(world_.events_[bytes_->below(World::kEvents)])}; }
  keel_gate gate() { return {handle(world_.gates_[bytes_->below(World::kGates)])}; }
  keel_comm comm() { return {handle(world_.comm_[bytes_->below(World::kRanks)])}; }
  Lane& lane() { return world_.lanes_[bytes_->below(World::kLanes)]; }
  int64_t timeout();
  keel_header header(uint32_t size, uint32_t type);
  // Returns a block of |lane|, or an invalid block. offset() is inside the block; size() may not
  // fit.
  Lane::Block block(Lane& lane);
  // Returns the memory of |block| for a call on |lane|'s device without a device argument; NULL for
  // memory of another device: two emulated chips use the same addresses, so the address could
  // belong to another lane.
  static char* near(const Lane::Block& block, const Lane& lane);
  char* own_memory(Lane& lane) { return near(block(lane), lane); }
  uint64_t offset(const Lane::Block& block);
  uint64_t size(uint64_t usual);
  keel_tensor tensor(char* memory);
  struct OpCall;
  void make_call(Lane& lane, OpCall* out_call);
  std::string text(uint32_t limit) { return bytes_->text(limit); }

  void check(const char* call, keel_status status) { world_.check(call, status); }

  // Calls.
  void create_stream();
  void destroy_stream();
  void query_stream();
  void synchronize_stream();
  void recover_stream();
  void create_event();
  void destroy_event();
  void record_event();
  void query_event();
  void wait_event();
  void stream_waits_for_event();
  void elapsed();
  void create_gate();
  void destroy_gate();
  void open_gate();
  void stream_waits_for_gate();
  void allocate();
  void free_block();
  void trim();
  void find_memory();
  void register_host();
  void copy_host();
  void copy_blocks();
  void fill();
  void run_op();
  void plan_op();
  void explain_op();
  void register_kernel();
  void create_comm();
  void end_comm();
  void ask_comm();
  void collective();
  struct Collective;
  void call_by_rank(uint32_t rank, const Collective& call);
  void ask_device();
  void ask_backend();
  void ask_path();
  void load_plugin();
  void synchronize_device();
  void memory_statistics();
  void load_module();

  static const std::vector<Weighted>& table();

  World& world_;
  Bytes* bytes_ = nullptr;
};

}  // namespace keel::fuzz

#endif  // KEEL_FUZZ_RANDOM_CALLS_H_
