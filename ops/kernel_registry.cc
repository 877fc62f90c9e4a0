// SPDX-License-Identifier: Apache-2.0
#include "ops/kernel_registry.h"

#include "core/runtime.h"
#include "ops/call_cache.h"
#include "ops/schema.h"

namespace keel::ops {

KernelRegistry& KernelRegistry::get() {
  static auto* const registry = new KernelRegistry;  // outlives every thread that may dispatch
  return *registry;
}

KernelRegistry::KernelRegistry() {
  // Backends end at shutdown, and with them their kernels.
  Runtime::get().add_shutdown_hook([this] { clear(); });
}

Status KernelRegistry::add(const keel_custom_kernel& kernel) {
  const Schema* schema = find_schema(kernel.op);
  if (schema == nullptr) return failure(KEEL_NOT_FOUND, "kernel.op: {} is no operator", kernel.op);
  const Backend* backend = nullptr;
  Runtime& runtime = Runtime::get();
  for (uint32_t i = 0; i < runtime.backend_count() && backend == nullptr; ++i) {
    if (runtime.backend(i)->name() == kernel.backend) backend = runtime.backend(i);
  }
  if (backend == nullptr) {
    return failure(KEEL_NOT_FOUND, "kernel.backend: no backend is called \"{}\"", kernel.backend);
  }
  auto added = std::make_unique<CustomKernel>();
  added->op = kernel.op;
  added->score = kernel.score;
  added->backend = backend;
  added->name = kernel.name;
  added->user = kernel.user;
  added->accepts = kernel.accepts;
  added->run = kernel.run;
  std::lock_guard lock(mutex_);
  const CustomKernel* head = heads_[kernel.op].load(std::memory_order_relaxed);
  for (const CustomKernel* other = head; other != nullptr; other = other->next) {
    if (other->backend != backend || other->name != added->name) continue;
    return failure(KEEL_ALREADY_EXISTS, "{} has a kernel \"{}\" on {} already", schema->name,
                   added->name, backend->name());
  }
  added->next = head;
  kernels_.push_back(std::move(added));
  heads_[kernel.op].store(kernels_.back().get(), std::memory_order_release);
  OpCallCache::forget_all();  // may beat the kernels chosen so far
  return {};
}

void KernelRegistry::clear() {
  std::lock_guard lock(mutex_);
  for (auto& head : heads_) head.store(nullptr, std::memory_order_release);
  kernels_.clear();
  OpCallCache::forget_all();
}

}  // namespace keel::ops
