// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUDA_CONTEXT_H_
#define KEEL_EMULATOR_SHIMS_CUDA_CONTEXT_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "emulator/device.h"
#include "emulator/host_memory.h"
#include "emulator/shims/cuda/health.h"
#include "emulator/stream.h"

namespace keel::emulator::cuda {

// The primary context of one device, and its chip. The first retain creates the chip, the last
// release destroys it, and a later retain creates a new chip. Until then a failure of the chip
// stays with the context. Lives as long as the process. Thread-safe.
class Context {
 public:
  // |options| is copied; |host_memory| outlives the context.
  Context(const DeviceOptions& options, uint32_t ordinal, HostMemory& host_memory);

  uint32_t ordinal() const { return ordinal_; }
  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
  static Context* of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }

  CUresult retain();
  CUresult release();
  // Returns CUDA_ERROR_CONTEXT_IS_DESTROYED if the context is not retained, or the error that lost
  // the chip.
  CUresult chip(std::shared_ptr<Device>* out_chip);
  // Returns stream 0, which lives as long as the chip does.
  CUresult default_stream(Stream** out_stream);
  CUresult enable_peer(const Context& peer);
  // Returns the losses of this chip and its predecessors.
  ChipHealth health() const;

 private:
  DeviceOptions options_;
  const uint32_t ordinal_;
  HostMemory& host_memory_;

  mutable std::mutex mutex_;
  uint32_t holders_ = 0;
  ChipHealth former_;  // losses of earlier chips
  std::shared_ptr<Device> chip_;
  std::unique_ptr<Stream> default_stream_;
  std::set<const Context*> peers_;
};

// The calling thread's stack of contexts; NULL when the stack is empty.
Context* current_context();
void push_context(Context* context);
Context* pop_context();

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_SHIMS_CUDA_CONTEXT_H_
