// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/context.h"

#include <utility>
#include <vector>

#include "emulator/shims/cuda/results.h"

namespace keel::emulator::cuda {
namespace {

thread_local std::vector<Context*> t_contexts;

// Returns |health| plus a loss of |chip|, if any.
ChipHealth counted(ChipHealth health, const Device& chip) {
  if (!chip.is_lost()) return health;
  ++health.failures;
  health.last_cause = chip.loss_cause();
  if (health.last_cause == Code::kDeviceLost) ++health.uncorrected;
  return health;
}

}  // namespace

Context::Context(const DeviceOptions& options, uint32_t ordinal, HostMemory& host_memory)
    : options_(options), ordinal_(ordinal), host_memory_(host_memory) {
  options_.index = ordinal;
  options_.failure_is_loss = true;
  options_.shareable = true;
}

CUresult Context::retain() {
  const std::lock_guard lock(mutex_);
  if (chip_ == nullptr) {
    if (!Device::create(options_, &chip_).ok()) return CUDA_ERROR_OUT_OF_MEMORY;
    host_memory_.introduce(chip_);
  }
  ++holders_;
  return CUDA_SUCCESS;
}

CUresult Context::release() {
  std::shared_ptr<Device> last;
  std::unique_ptr<Stream> stream;
  const std::lock_guard lock(mutex_);
  if (holders_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--holders_ != 0) return CUDA_SUCCESS;
  stream = std::move(default_stream_);
  last = std::move(chip_);
  peers_.clear();
  stream.reset();
  last->close();
  former_ = counted(former_, *last);
  return CUDA_SUCCESS;
}

CUresult Context::chip(std::shared_ptr<Device>* out_chip) {
  const std::lock_guard lock(mutex_);
  if (chip_ == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out_chip = chip_;
  return chip_->is_lost() ? loss_of(*chip_) : CUDA_SUCCESS;
}

CUresult Context::default_stream(Stream** out_stream) {
  const std::lock_guard lock(mutex_);
  if (chip_ == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (default_stream_ == nullptr) {
    const Status status = Stream::create(chip_, /*priority=*/0, &default_stream_);
    if (!status.ok()) return result_of(status, *chip_);
  }
  *out_stream = default_stream_.get();
  return CUDA_SUCCESS;
}

CUresult Context::enable_peer(const Context& peer) {
  const std::lock_guard lock(mutex_);
  if (&peer == this) return CUDA_ERROR_INVALID_CONTEXT;
  return peers_.insert(&peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

ChipHealth Context::health() const {
  const std::lock_guard lock(mutex_);
  return chip_ == nullptr ? former_ : counted(former_, *chip_);
}

Context* current_context() {
  return t_contexts.empty() ? nullptr : t_contexts.back();
}

void push_context(Context* context) {
  t_contexts.push_back(context);
}

Context* pop_context() {
  Context* const context = current_context();
  if (context != nullptr) t_contexts.pop_back();
  return context;
}

}  // namespace keel::emulator::cuda
