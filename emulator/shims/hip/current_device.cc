// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/hip/current_device.h"

#include <mutex>
#include <vector>

#include "emulator/shims/cuda/driver.h"

namespace keel::emulator::hip {
namespace {

thread_local int t_device = 0;

}  // namespace

CUresult initialize() {
  return cuda::Driver::get().ready() == CUDA_SUCCESS ? CUDA_SUCCESS : cuInit(0);
}

CUresult open_device(int device, CUcontext* out_context) {
  const CUresult ready = initialize();
  if (ready != CUDA_SUCCESS) return ready;
  cuda::Context* const context = cuda::Driver::get().context(device);
  if (context == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out_context = context->handle();
  static std::mutex& mutex = *new std::mutex;
  static std::vector<bool>& opened = *new std::vector<bool>(cuda::Driver::get().device_count());
  const std::lock_guard lock(mutex);
  if (opened[static_cast<size_t>(device)]) return CUDA_SUCCESS;
  const CUresult retained = context->retain();
  if (retained == CUDA_SUCCESS) opened[static_cast<size_t>(device)] = true;
  return retained;
}

int current_device() {
  return t_device;
}

CUresult select_device(int device) {
  CUcontext context = nullptr;
  const CUresult opened = open_device(device, &context);
  if (opened == CUDA_SUCCESS) t_device = device;
  return opened;
}

CUresult enter() {
  cuda::Context* const current = cuda::current_context();
  if (current != nullptr && current->ordinal() == static_cast<uint32_t>(t_device)) {
    return CUDA_SUCCESS;
  }
  CUcontext context = nullptr;
  const CUresult opened = open_device(t_device, &context);
  if (opened != CUDA_SUCCESS) return opened;
  (void)cuda::pop_context();
  cuda::push_context(cuda::Context::of(context));
  return CUDA_SUCCESS;
}

}  // namespace keel::emulator::hip
