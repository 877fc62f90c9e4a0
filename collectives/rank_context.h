// SPDX-License-Identifier: Apache-2.0
// State of one rank of a communicator while it runs its operations.
#ifndef KEEL_COLLECTIVES_RANK_CONTEXT_H_
#define KEEL_COLLECTIVES_RANK_CONTEXT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/bridge/chunk_plan.h"
#include "collectives/bridge/device_reduction.h"
#include "collectives/bridge/operation_statistics.h"
#include "collectives/bridge/staging_pipeline.h"
#include "collectives/kept_allocations.h"
#include "collectives/operation.h"
#include "collectives/priority_arbiter.h"
#include "collectives/reduce/reduce.h"
#include "collectives/selection/selection.h"
#include "collectives/team.h"
#include "collectives/transports/attach.h"
#include "collectives/transports/ipc_handle_cache.h"
#include "collectives/transports/peer_memory.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

// One of the rank's own buffers in one operation.
struct Side {
  StagingPipeline::Buffer buffer;
  uint64_t bytes = 0;
  bool staged = false;    // the other ranks cannot reach it
  bool attached = false;  // other processes read it by cross-memory attach
  MemHandle place;        // of the buffer, or of the staging pipeline

  // Returns a side for local use only: |size| bytes at |pointer| for the device and at |host| for
  // the host.
  static Side on_host(const void* host, const void* pointer, uint64_t size) {
    Side side;
    side.bytes = size;
    if (size == 0) return side;
    side.buffer.host = static_cast<char*>(const_cast<void*>(host));
    side.buffer.device = static_cast<char*>(const_cast<void*>(pointer));
    return side;
  }
};

// Returns |pointer| if |size| bytes there are registered host memory with the same address on
// |device|, else NULL. The |sent_size| bytes at |sent|, whose host address is |sent_host|, have
// just been found, so that an operation in place asks the kernel once.
[[gnu::noinline]] void* registered_address(Device& device, void* pointer, uint64_t size,
                                           const void* sent, const void* sent_host,
                                           uint64_t sent_size);

// Returns the host address of |size| bytes at |pointer|, in |device|'s memory or in host memory
// with the same address on the device. NULL if neither the calling thread's lookup cache, |cache|,
// nor a registration covers the bytes. The rest as in registered_address().
inline void* host_address(Device& device, const BlockLookupCache& cache, void* pointer,
                          uint64_t size, const void* sent = nullptr,
                          const void* sent_host = nullptr, uint64_t sent_size = 0) {
  char* const alias = device.memory().known_alias(cache, pointer, size);
  if (alias != nullptr) [[likely]] {
    return alias;
  }
  return registered_address(device, pointer, size, sent, sent_host, sent_size);
}

// Both buffers of an operation.
struct Sides {
  Side send;
  Side receive;
  void* scratch = nullptr;
  MemHandle work;        // scratch that the step plan wants
  bool fetched = false;  // the first chunks of a staged |send| are copied
};

// Not thread-safe, except for the counters, readable by any thread.
class RankContext {
 public:
  RankContext(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device, bool forbid_alias);

  Team& team() { return *team_; }
  const Team& team() const { return *team_; }
  ControlSegment& segment() { return team_->segment(); }
  OperationBoard& board() { return segment().board(); }
  PointToPointSlots& messages() { return segment().messages(); }
  AbortRecord& failures() { return segment().failures(); }
  uint32_t rank() const { return rank_; }
  uint32_t world() const { return team_->world(); }
  // Whether some rank's buffers are unreachable for the peers.
  bool any_staged() const { return any_staged_; }
  Device& device() { return *device_; }
  // Whether the host accesses the device's memory in place.
  bool has_alias() const { return has_alias_; }
  // Allocates the bounce buffers for |side|; required for each staged side.
  Status prepare_staging(const Side& side);
  StagingPipeline& stage() { return *stage_; }
  uint64_t window_bytes() const { return window_bytes_; }
  // Bytes of a message's chunk: the segment's value at make_staging(), since any process with the
  // segment may change the value later.
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  // Requires the segment's chunk size.
  void make_staging();
  // write_link() writes the measured rates of the rank's host link into |descriptor|. read_links()
  // returns the rates published by all ranks with the operation before |sequence|; the result is
  // the same on all ranks.
  void write_link(OperationDescriptor* descriptor) const {
    descriptor->link_out = static_cast<float>(stage_->out_rate());
    descriptor->link_in = static_cast<float>(stage_->in_rate());
  }
  void read_links(uint64_t sequence, std::vector<HostLink>* out_legs);
  // Whether |rank| has a host link: the host does not reach the memory of the rank's device.
  bool has_link(uint32_t rank) const {
    return (team_->peer_info(rank).flags & Team::kNoAlias) != 0;
  }

  // Whether the communicator has two ranks, both of this process, and exactly one host link: see
  // DeviceReduction.
  bool may_sum_on_device() const { return may_sum_on_device_; }
  // Device-offloaded reduction of the rank with the host link; created on first use.
  DeviceReduction& device_reduction();
  // Whether the last eligible operation was reduced on the device.
  bool sums_on_device = false;

  // Allocations of the running operation, or null; see KeptAllocations.
  const KeptAllocations* kept = nullptr;

  // Locates the |bytes| at |pointer|. |published|: the peers read some of the bytes. |attachable|:
  // the peers read whole ranges, once.
  Status make_side(const void* pointer, uint64_t bytes, bool published, Side* out_side,
                   bool attachable = false);
  // Same as make_side() for a message, with a separate staging pipeline.
  Status make_message_side(const void* pointer, uint64_t bytes, bool published, Side* out_side);
  // Makes a side without a buffer, for partial results gathered by a peer.
  Status make_scratch(Side* out_side);
  // Returns the place of the bounce buffers, for the peers.
  Status make_work(MemHandle* out_place);
  uint32_t memory_epoch() const { return book_.epoch(); }
  // Returns the local address of |size| bytes at |offset| from |place|, a place of |peer|.
  Status resolve(uint32_t peer, const MemHandle& place, uint32_t epoch, uint64_t offset,
                 uint64_t size, WaitContext& wait_context, const char** out_data);
  // Copies memory of |peer|, a rank of another process with a published address only.
  Status read_attached(uint32_t peer, uint64_t address, uint64_t size, void* out);
  Attach& attach() { return attach_; }

  // Sequence number of the next collective, and number of the last barrier.
  uint64_t sequence = 0;
  uint64_t step = 0;
  // Number of the running call among the rank's calls; published with the operation.
  uint64_t call = 0;
  uint32_t call_flags() const {
    return static_cast<uint32_t>(call) << OperationDescriptor::kCallShift;
  }
  // Requires |sequence| to be published by all ranks. If some rank has made more calls than it has
  // published, the ranks are at different operations: ends the communicator and names the rank.
  Status check_calls(uint64_t sequence);
  // Returns KEEL_OK, or |peer|'s name and published reason not to take part in |sequence|.
  Status published_status(uint32_t peer, uint64_t sequence);
  // Blocks until all ranks have published |sequence|. The failure at the deadline names the missing
  // ranks; any failure ends the communicator.
  Status await_descriptors(uint64_t sequence, WaitContext& wait_context);
  // Runs the next barrier; arrive() and await() are the two halves.
  Status meet(WaitContext& wait_context);
  void arrive() { board().arrive(rank_, ++step); }
  Status await(WaitContext& wait_context);

  // Yields to urgent operations, between two parts of an operation of several milliseconds.
  bool may_yield() const { return PriorityArbiter::get().is_possible() && !team_->is_urgent(); }
  void yield_to_urgent() {
    if (!may_yield()) [[likely]] {
      return;
    }
    if (PriorityArbiter::get().yield_to_urgent())
      preempted_.fetch_add(1, std::memory_order_relaxed);
  }
  // Yields and checks the communicator for failure. Call after each kStepBytes of one part, every
  // 0.3 to 1 ms: two loads are negligible at this rate, and no urgent operation or thread waiting
  // for a failure waits longer.
  static constexpr uint64_t kStepBytes = 4 << 20;
  Status between_steps() {
    yield_to_urgent();
    return failures().failed() ? failures().status() : Status();
  }
  // Reduces the next |count| elements of all |sources| into |result|, step by step.
  Status reduce_in_steps(const Request& request, char* result, uint64_t count, Store store);
  uint64_t preempted() const { return preempted_.load(std::memory_order_relaxed); }

  void count_in_place(uint64_t bytes) {
    in_place_.store(in_place() + bytes, std::memory_order_relaxed);  // one writer at a time
    observers::tell([&](Observer& observer) { observer.bridged(bytes); });
  }
  // Lists the ranks for which |missing|(rank) is true: "rank 1 (cpu:0), rank 4 (cpu:0)".
  template <typename Missing>
  std::string name_ranks(const Missing& missing) const {
    return team_->name_ranks(missing);
  }

  // Bytes copied by |stage_|, and by messages with their own staging pipelines.
  std::atomic<uint64_t> to_host{0};
  std::atomic<uint64_t> to_device{0};
  std::atomic<uint64_t> messages_to_host{0};
  std::atomic<uint64_t> messages_to_device{0};
  // All copied bytes, with device-offloaded reductions.
  StagingPipeline::Traffic traffic() const;
  uint64_t in_place() const { return in_place_.load(std::memory_order_relaxed); }

  // Reduce-scatter and all-gather chunking, agreed by all ranks.
  ReduceScatterChunks reduce_scatter_chunks;

  // The planned operation, kept to avoid allocations in the next; and the last complete operation,
  // for explain().
  OperationStatistics exchange;
  LastOperation last_operation;
  // Records the statistics of the complete |request|. All ranks had called by |begin|.
  void tell_exchange(const Request& request, const Side& send, const Side& receive,
                     const OperationPath& way, std::chrono::steady_clock::time_point begin);

  // One entry per rank, reserved to avoid allocations in operations.
  std::vector<const void*> sources;
  std::vector<double> factors;
  // Returns the factor published by |peer|; 1 for a factor outside the dtype, never published by a
  // correct rank.
  double published_factor(uint32_t peer, const Request& request, uint64_t sequence) {
    if (request.reduction != KEEL_PREMUL_SUM) return 1;
    const double factor = board().descriptor(peer, sequence).factor;
    return can_premultiply(request.dtype, factor) ? factor : 1;
  }
  // Factors for reduce().
  std::span<const double> factors_of(const Request& request) const {
    if (request.reduction != KEEL_PREMUL_SUM) return {};
    return factors;
  }

  // Returns the piece from |peer|, which has published |request| too, to this rank. Fails and names
  // both ranks if this rank receives a different number of elements: for all_to_all_v only the two
  // ranks know the count.
  Status read_piece(const Request& request, uint32_t peer, Piece* out_piece) {
    *out_piece = request.send_piece(peer, rank_);
    if (request.collective != KEEL_ALL_TO_ALL_V || peer == rank_) return {};
    const uint64_t* const layout = board().layout(peer) + 2 * uint64_t{rank_};
    *out_piece = {layout[0], layout[1]};
    const uint64_t expected = request.receive_piece(rank_, peer, world()).count;
    if (out_piece->count == expected) return {};
    return failure(KEEL_INVALID_ARGUMENT,
                   "mismatch: rank {} sends {} elements to rank {}, which receives {}", peer,
                   out_piece->count, rank_, expected);
  }

 private:
  Status locate_side(const void* pointer, uint64_t bytes, bool published, bool attachable,
                     Side* out_side);

  const std::shared_ptr<Team> team_;
  const uint32_t rank_;
  const Ref<Device> device_;
  const bool has_alias_;
  bool any_staged_ = false;
  bool may_sum_on_device_ = false;
  uint64_t chunk_bytes_ = 0;
  uint64_t window_bytes_ = 0;
  std::unique_ptr<StagingPipeline> stage_;
  std::unique_ptr<DeviceReduction> device_reduction_;
  std::atomic<const DeviceReduction*> told_sum_{nullptr};  // |device_reduction_|, for other threads
  IpcHandleCache book_;
  Attach attach_;
  std::vector<RemoteMappingCache> views_;
  std::atomic<uint64_t> in_place_{0};
  std::atomic<uint64_t> preempted_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_RANK_CONTEXT_H_
