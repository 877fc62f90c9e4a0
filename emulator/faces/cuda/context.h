// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUDA_CONTEXT_H_
#define KEEL_EMULATOR_FACES_CUDA_CONTEXT_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "emulator/device.h"
#include "emulator/faces/cuda/health.h"
#include "emulator/faces/cuda/host_memory.h"
#include "emulator/stream.h"

namespace keel::emulator::cuda {

// The primary context of one device, and with it the chip: made when somebody retains it, gone
// when the last one has released it, and then made anew. What fails on the chip stays with the
// context until then. Lives as long as the process. Thread-safe.
class Context {
 public:
  // |options| and |host_memory| outlive it.
  Context(const DeviceOptions& options, uint32_t ordinal, HostMemory& host_memory);

  uint32_t ordinal() const { return ordinal_; }
  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
  static Context* of(CUcontext handle) { return reinterpret_cast<Context*>(handle); }

  CUresult retain();
  CUresult release();
  // CUDA_ERROR_CONTEXT_IS_DESTROYED where nobody holds it, or what the chip was lost of.
  CUresult chip(std::shared_ptr<Device>* out_chip);
  // Of the stream 0. It lives as long as the chip does.
  CUresult default_stream(Stream** out_stream);
  CUresult enable_peer(const Context& peer);
  // What this chip and those before it died of.
  ChipHealth health() const;

 private:
  DeviceOptions options_;
  const uint32_t ordinal_;
  HostMemory& host_memory_;

  mutable std::mutex mutex_;
  uint32_t holders_ = 0;
  ChipHealth former_;  // of the chips that are gone
  std::shared_ptr<Device> chip_;
  std::unique_ptr<Stream> default_stream_;
  std::set<const Context*> peers_;
};

// The stack of contexts of the calling thread; NULL when it is empty.
Context* current_context();
void push_context(Context* context);
Context* pop_context();

}  // namespace keel::emulator::cuda

#endif  // KEEL_EMULATOR_FACES_CUDA_CONTEXT_H_
