// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_COMMUNICATOR_H_
#define KEEL_EMULATOR_CCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "emulator/ccl/call.h"
#include "emulator/ccl/clique.h"
#include "emulator/ccl/rank_endpoint.h"
#include "emulator/device.h"
#include "emulator/notifier.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::ccl {

// Properties of the emulated library.
struct Traits {
  Traits(TypeSet has_types = kUsualTypes) : types(has_types) {}  // NOLINT: implicit from a TypeSet

  TypeSet types;  // supported types
  // A failure or an abort of an operation is no failure of the stream: a failed operation hangs
  // until the rank aborts, as in libraries without another way to report. Accesses to invalid
  // memory still fail the stream, as in any kernel.
  bool streams_outlive_failures = false;
};

// One rank of the emulated chip's own collectives library, the counterpart of NCCL on Nvidia chips.
// Operations run on streams, in call order, and read the memory of all ranks' devices. The ranks
// are in this process or, if the id's creator admits remote ranks (see open_bootstrap_root), in
// several. A rank that hangs hangs all ranks, until each aborts. Thread-safe except run(), which
// one thread at a time calls. Analogue: ncclComm_t.
class Communicator {
 public:
  // Blocks until all ranks have joined: see Clique::meet and RemoteRank::create.
  static Status create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                       uint32_t world, Time deadline, const Traits& traits,
                       std::unique_ptr<Communicator>* out_communicator);
  // Gives up joining for ranks of this process: see Clique::give_up.
  static void give_up(const UniqueId& id);
  // Aborts unfinished operations.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t world() const { return endpoint_->world(); }
  // Enqueues |calls| on |stream|, a stream of the rank's device: all of them or none. Consecutive
  // messages progress together, in any order. Returns kUnsupported for a type unsupported by the
  // chip.
  Status run(Stream& stream, std::span<const Call> calls);
  // Blocks until all ranks have called, and until all ranks of the same |color| have joined. Ranks
  // of one color, ordered by |key| and then by rank here, form a new communicator with the same
  // traits. The new communicator outlives this one. A rank with a negative color gets an empty
  // |*out_part|. Returns kTimedOut at |deadline|; an abort ends the call, too. Analogue:
  // ncclCommSplit.
  Status split(int32_t color, int32_t key, Time deadline, std::unique_ptr<Communicator>* out_part);
  // Fails running operations on their streams, refuses later calls, and notifies all peers.
  void abort();
  // Returns success, or the first asynchronous error: an operation of this rank that hangs, calls
  // that do not match, a rank that has aborted.
  Status async_error() const { return endpoint_->error(); }

 private:
  Communicator(std::shared_ptr<Device> device, std::shared_ptr<RankEndpoint> endpoint,
               uint32_t rank, const Traits& traits)
      : device_(std::move(device)), endpoint_(std::move(endpoint)), rank_(rank), traits_(traits) {}

  struct Step;

  Status check(const Call& call) const;
  // Enqueues five phases over all |calls| together: this rank's arrival, the wait for all arrivals,
  // reading, the wait until all ranks have read, the result.
  Status enqueue(Stream& stream, std::span<const Call> calls,
                 std::span<const Injection> injections);
  Status enqueue_arrival(Stream& stream, const Step& step);
  Status enqueue_reading(Stream& stream, const Step& step);
  Status enqueue_result(Stream& stream, const Step& step);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<RankEndpoint> endpoint_;
  const uint32_t rank_;
  const Traits traits_;
  std::mutex mutex_;
  std::optional<UniqueId> joining_;  // id that a split in progress joins
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_COMMUNICATOR_H_
