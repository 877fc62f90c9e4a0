// SPDX-License-Identifier: Apache-2.0
// Custom kernels that frameworks and vendors register at run time.
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

// Immutable once registered.
struct CustomKernel {
  keel_op_id op = KEEL_OP_INVALID;
  uint32_t score = 0;
  const Backend* backend = nullptr;
  std::string name;
  void* user = nullptr;
  int (*accepts)(void* user, const keel_op_call* call) = nullptr;
  keel_status (*run)(void* user, keel_stream stream, const keel_op_call* call) = nullptr;
  const CustomKernel* next = nullptr;  // previously registered kernel of the same operator
};

// Singleton. Kernels stay until keel_shutdown, so readers follow a linked list without a lock; an
// operator without custom kernels costs one load. Thread-safe.
class KernelRegistry {
 public:
  static KernelRegistry& get();

  // Returns KEEL_NOT_FOUND for an unknown operator or backend, KEEL_ALREADY_EXISTS if the operator
  // already has a kernel of the same name on the same backend.
  Status add(const keel_custom_kernel& kernel);

  // The newest kernel of |op|, or NULL. |op| must be a valid operator number.
  const CustomKernel* first(keel_op_id op) const {
    return heads_[op].load(std::memory_order_acquire);
  }

 private:
  KernelRegistry();
  void clear();

  std::mutex mutex_;  // guards add and clear
  std::vector<std::unique_ptr<CustomKernel>> kernels_;
  std::atomic<const CustomKernel*> heads_[KEEL_OP_COUNT] = {};
};

}  // namespace keel::ops

#endif  // KEEL_OPS_KERNEL_REGISTRY_H_
