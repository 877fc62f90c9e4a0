// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_COMMUNICATOR_H_
#define KEEL_EMULATOR_CCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "emulator/bell.h"
#include "emulator/ccl/call.h"
#include "emulator/ccl/clique.h"
#include "emulator/ccl/seat.h"
#include "emulator/device.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::ccl {

// What a library is like.
struct Traits {
  Traits(TypeSet has_types = kUsualTypes) : types(has_types) {}  // NOLINT: of such types alone

  TypeSet types;  // what it computes in
  // What goes wrong in an operation, or ends by an abort, is no failure of the stream: the former
  // hangs until the rank aborts, as in libraries that can tell of it no other way. Accesses to
  // memory that is not there are, as in any kernel.
  bool streams_outlive_failures = false;
};

// One rank in the emulated chip's own library of collectives, as NCCL's are on Nvidia's: its
// operations run on streams, in the order of the calls, and read what the other ranks' devices
// hold, in this process or, where the process that made the id lets them in (see open_hub), in
// several. A rank that hangs hangs all, until each aborts. Thread-safe but
// for run(), which one thread at a time calls. Analogue: ncclComm_t.
class Communicator {
 public:
  // Blocks until all ranks have come: see Clique::meet and RemoteSeat::create.
  static Status create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                       uint32_t world, Time deadline, const Traits& traits,
                       std::unique_ptr<Communicator>* out_communicator);
  // See Clique::give_up; in this process.
  static void give_up(const UniqueId& id);
  // Aborts what has not ended.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t world() const { return seat_->world(); }
  // Enqueues |calls| on |stream|, a stream of the rank's device: all of them or none. Messages
  // that follow each other go on together, whatever their order. kUnsupported for a type that the
  // chip has not.
  Status run(Stream& stream, std::span<const Call> calls);
  // Blocks until all ranks have called, and until those of the same |color| have come: in the order
  // of their |key|s, then of their ranks here, they are a communicator of its own, with the same
  // traits, which outlives this one. A negative color takes part in none: |*out_part| is empty.
  // kTimedOut at |deadline|; ends by an abort, too. Analogue: ncclCommSplit.
  Status split(int32_t color, int32_t key, Time deadline, std::unique_ptr<Communicator>* out_part);
  // What runs fails on its stream, and no later call is taken. The other ranks are told.
  void abort();
  // Success, or what went wrong while nobody asked: an operation of this rank that hangs, calls
  // that do not match, a rank that has aborted.
  Status async_error() const { return seat_->error(); }

 private:
  Communicator(std::shared_ptr<Device> device, std::shared_ptr<Seat> seat, uint32_t rank,
               const Traits& traits)
      : device_(std::move(device)), seat_(std::move(seat)), rank_(rank), traits_(traits) {}

  struct Step;

  Status check(const Call& call) const;
  // Of all |calls| together: that they have come, that the others have, that they read, that
  // these have read, and what came of it.
  Status enqueue(Stream& stream, std::span<const Call> calls,
                 std::span<const Injection> injections);
  Status enqueue_arrival(Stream& stream, const Step& step);
  Status enqueue_reading(Stream& stream, const Step& step);
  Status enqueue_result(Stream& stream, const Step& step);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Seat> seat_;
  const uint32_t rank_;
  const Traits traits_;
  std::mutex mutex_;
  std::optional<UniqueId> joining_;  // the id by which a split meets
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_COMMUNICATOR_H_
