// SPDX-License-Identifier: Apache-2.0
// The kernels that frameworks and vendors registered at run time.
#ifndef KEEL_OPS_KERNEL_REGISTRY_H_
#define KEEL_OPS_KERNEL_REGISTRY_H_

#include <keel/keel.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/status.h"

namespace keel::ops {

// Immutable once it is in the registry.
struct CustomKernel {
  keel_op_id op = KEEL_OP_INVALID;
  uint32_t score = 0;
  const Backend* backend = nullptr;
  std::string name;
  void* user = nullptr;
  int (*accepts)(void* user, const keel_op_call* call) = nullptr;
  keel_status (*run)(void* user, keel_stream stream, const keel_op_call* call) = nullptr;
  const CustomKernel* next = nullptr;  // of the same operator, registered before
};

// One a process. Kernels stay until keel_shutdown, so readers follow a list of them
// without a lock: for an operator without any, one load. Thread-safe.
class KernelRegistry {
 public:
  static KernelRegistry& get();

  // KEEL_NOT_FOUND for an operator or a backend that is none; KEEL_ALREADY_EXISTS for a
  // name that the operator has on that backend.
  Status add(const keel_custom_kernel& kernel);

  // The newest kernel of |op|, a number of the table; NULL without any.
  const CustomKernel* first(keel_op_id op) const {
    return heads_[op].load(std::memory_order_acquire);
  }

 private:
  KernelRegistry();
  void clear();

  std::mutex mutex_;  // add and clear
  std::vector<std::unique_ptr<CustomKernel>> kernels_;
  std::atomic<const CustomKernel*> heads_[KEEL_OP_COUNT] = {};
};

}  // namespace keel::ops

#endif  // KEEL_OPS_KERNEL_REGISTRY_H_
