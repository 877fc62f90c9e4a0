// SPDX-License-Identifier: Apache-2.0
// What one rank of a communicator works with while it runs its operations.
#ifndef KEEL_COLLECTIVES_RANK_CONTEXT_H_
#define KEEL_COLLECTIVES_RANK_CONTEXT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/bridge/device_sum.h"
#include "collectives/bridge/exchange_plan.h"
#include "collectives/bridge/last_exchange.h"
#include "collectives/bridge/stage.h"
#include "collectives/operation.h"
#include "collectives/reduce.h"
#include "collectives/selection/selection.h"
#include "collectives/team.h"
#include "collectives/transports/arena_book.h"
#include "collectives/transports/attach.h"
#include "collectives/transports/peer_memory.h"
#include "collectives/urgent_traffic.h"
#include "core/device.h"
#include "core/status.h"

namespace keel {

// One of the rank's own buffers in one operation.
struct Side {
  Stage::Buffer buffer;
  uint64_t bytes = 0;
  bool staged = false;    // the others cannot reach it
  bool attached = false;  // other processes reach it by cross-memory attach
  Place place;            // where they can, or of the stage

  // For an operation in which no other rank reaches it: |size| bytes that the device has at
  // |pointer|, and the host at |host|.
  static Side on_host(const void* host, const void* pointer, uint64_t size) {
    Side side;
    side.bytes = size;
    if (size == 0) return side;
    side.buffer.host = static_cast<char*>(const_cast<void*>(host));
    side.buffer.device = static_cast<char*>(const_cast<void*>(pointer));
    return side;
  }
};

// Where the host has |size| bytes at |pointer| of |device|'s memory, or of its own that the device
// reaches by the same address; NULL where the calling thread, by its notes, knows of no such place.
inline void* host_address(Device& device, const RememberedBlocks& notes, void* pointer,
                          uint64_t size) {
  char* const alias = device.memory().known_alias(notes, pointer, size);
  if (alias != nullptr) [[likely]] {
    return alias;
  }
  return size != 0 && device.host_registrations().has_same_address(pointer, size) ? pointer
                                                                                  : nullptr;
}

// Both, as an operation has them.
struct Sides {
  Side send;
  Side receive;
  void* scratch = nullptr;
  Place work;            // of what the plan of its steps wants
  bool fetched = false;  // what is staged of |send| is in its first windows
};

// For one thread, but for the numbers that may be asked for meanwhile.
class RankContext {
 public:
  RankContext(std::shared_ptr<Team> team, uint32_t rank, Ref<Device> device, bool forbid_alias);

  Team& team() { return *team_; }
  ControlSegment& segment() { return team_->segment(); }
  uint32_t rank() const { return rank_; }
  uint32_t world() const { return team_->world(); }
  // Whether the others can not reach some rank's buffers.
  bool any_staged() const { return any_staged_; }
  Device& device() { return *device_; }
  // Whether the host reads and writes its memory where it is.
  bool has_alias() const { return has_alias_; }
  // The windows, with memory for |side|; call it for each staged side.
  Status prepare_stage(const Side& side);
  Stage& stage() { return *stage_; }
  uint64_t window_bytes() const { return window_bytes_; }
  // Of a window of a message: as the segment had it when the stage was made, since whoever
  // writes there may change it.
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  // Once the segment's chunk size is known.
  void make_stage();
  // What this rank knows of its leg, with a post; and |out_legs| from those that all ranks have
  // posted with the operation before |sequence|, which are the same for all of them.
  void write_leg(Post* post) const {
    post->leg_out = static_cast<float>(stage_->out_rate());
    post->leg_in = static_cast<float>(stage_->in_rate());
  }
  void read_legs(uint64_t sequence, std::vector<Leg>* out_legs);
  // Whether the host does not reach the memory of |rank|'s device.
  bool has_leg(uint32_t rank) const { return (team_->attendee(rank).flags & Team::kNoAlias) != 0; }

  // Whether it is one of two ranks of this process, of which one has a leg: see DeviceSum.
  bool may_sum_on_device() const { return may_sum_on_device_; }
  // Of the rank with the leg; made when it is first wanted.
  DeviceSum& device_sum();
  // Whether the last operation that could have was summed up so.
  bool sums_on_device = false;

  // The |bytes| at |pointer|, of which the others shall read something if |published|: whole
  // ranges, once, if |attachable|.
  Status make_side(const void* pointer, uint64_t bytes, bool published, Side* out_side,
                   bool attachable = false);
  // The same for a message, whose stage is its own.
  Status make_message_side(const void* pointer, uint64_t bytes, bool published, Side* out_side);
  // A side that has no buffer, for partial results that another rank gathers.
  Status make_scratch(Side* out_side);
  // Where the others find what lies in the stage's windows.
  Status make_work(Place* out_place);
  uint32_t memory_epoch() const { return book_.epoch(); }
  // |size| bytes at |offset| from |place|, a place of |peer|'s, as an address here.
  Status resolve(uint32_t peer, const Place& place, uint32_t epoch, uint64_t offset, uint64_t size,
                 Patience& patience, const char** out_data);
  // Where |peer|, in another process, has only told an address.
  Status read_attached(uint32_t peer, uint64_t address, uint64_t size, void* out);
  Attach& attach() { return attach_; }

  // Next of its collectives, and the last barrier it has been through.
  uint64_t sequence = 0;
  uint64_t step = 0;
  // The number of the call that is being run, among the rank's own; it travels with the posts.
  uint64_t call = 0;
  uint32_t call_flags() const { return static_cast<uint32_t>(call) << Post::kCallShift; }
  // Of |sequence|, which all have posted. Where some rank has made more calls than it has posted,
  // the ranks are at different operations: ends the communicator, and names the rank.
  Status check_calls(uint64_t sequence);
  // What |peer| has posted |sequence| with, by its name: KEEL_OK, or why it takes no part.
  Status posted_status(uint32_t peer, uint64_t sequence);
  // Until all ranks have posted |sequence|. Who has not by the deadline is named; a failure ends
  // the communicator.
  Status await_posts(uint64_t sequence, Patience& patience);
  // The barrier after the last; the two halves of it.
  Status meet(Patience& patience);
  void arrive() { segment().arrive(rank_, ++step); }
  Status await(Patience& patience);

  // Between two parts of an operation of several milliseconds: lets urgent ones go first.
  bool may_give_way() const { return UrgentTraffic::get().is_possible() && !team_->is_urgent(); }
  void give_way() {
    if (!may_give_way()) [[likely]] {
      return;
    }
    if (UrgentTraffic::get().give_way()) gave_way_.fetch_add(1, std::memory_order_relaxed);
  }
  // Each time kStepBytes of one part were moved, which takes 0.3 to 1 ms: the same, and whether
  // the communicator is still whole. Two loads are nothing beside it, and no urgent operation
  // waits longer, nor does anyone who waits to hear of a failure.
  static constexpr uint64_t kStepBytes = 4 << 20;
  Status between_steps() {
    give_way();
    return segment().failed() ? segment().failure_status() : Status();
  }
  // The next |count| elements of all |sources| into |result|, step by step.
  Status reduce_in_steps(const Request& request, char* result, uint64_t count, Store store);
  uint64_t gave_way() const { return gave_way_.load(std::memory_order_relaxed); }

  void count_in_place(uint64_t bytes) {
    in_place_.store(in_place() + bytes, std::memory_order_relaxed);  // one thread at a time
    observers::tell([&](Observer& observer) { observer.bridged(bytes); });
  }
  // Ranks that |missing| says so of: "rank 1 (cpu:0), rank 4 (cpu:0)".
  template <typename Missing>
  std::string name_ranks(const Missing& missing) const {
    return team_->name_ranks(missing);
  }

  // By the stage; and by messages, each of which has one of its own.
  std::atomic<uint64_t> to_host{0};
  std::atomic<uint64_t> to_device{0};
  std::atomic<uint64_t> messages_to_host{0};
  std::atomic<uint64_t> messages_to_device{0};
  // All of it, with what the device has summed up.
  Stage::Traffic traffic() const;
  uint64_t in_place() const { return in_place_.load(std::memory_order_relaxed); }

  // As all ranks have agreed.
  DividedSums divided_sums;

  // The operation that is planned, kept so that the next one allocates nothing; and the last
  // that is over, for explain().
  Exchange exchange;
  LastExchange last_exchange;
  // |request| is over, which all ranks had called by |begin|.
  void tell_exchange(const Request& request, const Side& send, const Side& receive,
                     const ExchangeWay& way, std::chrono::steady_clock::time_point begin);

  // Room for one pointer a rank, so that an operation allocates nothing.
  std::vector<const void*> sources;
  std::vector<double> factors;
  // |peer|'s, as it has posted it; 1 for what the dtype has not, which no rank posts.
  double posted_factor(uint32_t peer, const Request& request, uint64_t sequence) {
    if (request.reduction != KEEL_PREMUL_SUM) return 1;
    const double factor = segment().post(peer, sequence).factor;
    return can_premultiply(request.dtype, factor) ? factor : 1;
  }
  // As reduce() wants them.
  std::span<const double> factors_of(const Request& request) const {
    if (request.reduction != KEEL_PREMUL_SUM) return {};
    return factors;
  }

  // What |peer|, which has posted |request| too, sends to this rank. A failure names both where
  // this rank receives another number of elements: of all_to_all_v only they know.
  Status read_piece(const Request& request, uint32_t peer, Piece* out_piece) {
    *out_piece = request.send_piece(peer, rank_);
    if (request.collective != KEEL_ALL_TO_ALL_V || peer == rank_) return {};
    const uint64_t* const layout = segment().layout(peer) + 2 * uint64_t{rank_};
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
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<DeviceSum> device_sum_;
  std::atomic<const DeviceSum*> told_sum_{nullptr};  // the same, for whoever asks meanwhile
  ArenaBook book_;
  Attach attach_;
  std::vector<PeerView> views_;
  std::atomic<uint64_t> in_place_{0};
  std::atomic<uint64_t> gave_way_{0};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_RANK_CONTEXT_H_
