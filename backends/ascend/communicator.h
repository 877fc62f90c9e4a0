// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_ASCEND_COMMUNICATOR_H_
#define KEEL_BACKENDS_ASCEND_COMMUNICATOR_H_

#include <keel/abi.h>

#include <memory>
#include <span>

#include "backends/ascend/device.h"
#include "backends/ascend/stream.h"

namespace keel::ascend {

// Whether HCCL of |sdk| itself computes the call: never by another dtype.
bool can_run(const Sdk& sdk, keel_collective collective, keel_dtype dtype,
             keel_reduction reduction);

// One rank of an HCCL communicator. HCCL has no abort and no deadline: a rank that hangs keeps its
// stream, and core then reports the device lost. Only one thread at a time calls run().
class Communicator {
 public:
  // Blocks until all ranks have joined.
  static keel_status create(Device& device, const HcclRootInfo& info, uint32_t rank, uint32_t world,
                            std::unique_ptr<Communicator>* out_communicator);
  // Requires that enqueued work has finished.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues |calls|; consecutive messages proceed together.
  keel_status run(Stream& stream, std::span<const keel_ccl_call> calls);
  keel_status async_error();

 private:
  Communicator(Device& device, uint32_t rank) : device_(device), rank_(rank) {}

  template <typename Body>
  keel_status call(const char* name, Body&& body);
  keel_status run_one(Stream& stream, const keel_ccl_call& call);
  keel_status run_messages(const Stream& stream, std::span<const keel_ccl_call> calls);

  Device& device_;
  const uint32_t rank_;
  HcclComm native_ = nullptr;
};

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_COMMUNICATOR_H_
