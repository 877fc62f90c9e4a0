#ifndef KEEL_EMULATOR_CCL_COMMUNICATOR_H_
#define KEEL_EMULATOR_CCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>

#include "emulator/bell.h"
#include "emulator/ccl/call.h"
#include "emulator/ccl/clique.h"
#include "emulator/device.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::ccl {

// One rank in the emulated chip's own library of collectives, as NCCL's are on Nvidia's: its
// operations run on streams, in the order of the calls, and read the memory of the other ranks'
// devices, all in this process. A rank that hangs hangs all, until each aborts. Thread-safe but
// for run(), which one thread at a time calls. Analogue: ncclComm_t.
class Communicator {
 public:
  // Blocks until all ranks have come: see Clique::meet. |types| is what the chip computes in.
  static Status create(const UniqueId& id, std::shared_ptr<Device> device, uint32_t rank,
                       uint32_t world, Time deadline, TypeSet types,
                       std::unique_ptr<Communicator>* out_communicator);
  // Aborts what has not ended.
  ~Communicator() { abort(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues |calls| on |stream|, a stream of the rank's device: all of them or none.
  // kUnsupported for a type that the chip has not.
  Status run(Stream& stream, std::span<const Call> calls);
  // What runs fails on its stream, and no later call is taken. The other ranks are told.
  void abort() { clique_->abort(rank_); }
  // Success, or what went wrong while nobody asked: an operation of this rank that hangs, calls
  // that do not match, a rank that has aborted.
  Status async_error() const { return clique_->error(rank_); }

 private:
  Communicator(std::shared_ptr<Device> device, std::shared_ptr<Clique> clique, uint32_t rank,
               TypeSet types)
      : device_(std::move(device)), clique_(std::move(clique)), rank_(rank), types_(types) {}

  Status check(const Call& call) const;
  Status enqueue(Stream& stream, const Call& call, const Injection& injection);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Clique> clique_;
  const uint32_t rank_;
  const TypeSet types_;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_COMMUNICATOR_H_
