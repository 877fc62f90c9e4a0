// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_EVENT_H_
#define KEEL_BACKENDS_CUDA_EVENT_H_

#include <cuda.h>
#include <keel/abi.h>

#include <memory>

#include "backends/cuda/stream.h"

namespace keel::cuda {

// A CUevent. There is no wait function: the driver's wait has no timeout, so core polls.
class Event {
 public:
  static keel_status create(Device& device, uint32_t flags, std::unique_ptr<Event>* out_event);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  keel_status record(const Stream& stream);
  keel_status query();
  keel_status hold_back(const Stream& stream);
  keel_status elapsed_since(const Event& start, uint64_t* out_nanoseconds);

 private:
  explicit Event(Device& device) : device_(device) {}

  Device& device_;
  CUevent native_ = nullptr;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_EVENT_H_
