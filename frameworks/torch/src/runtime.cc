// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace keel_torch {

namespace {

// Declares the memory of this process as reachable for |device|, once, so that no tensor needs a
// registration of its own: PyTorch's allocator returns memory to the system and gets it back
// without a notice. A range of this size gets no huge pages (keel_host_register). KEEL_ALL_MEMORY,
// which finds buffers that are not mapped, takes an all_reduce of 1 KiB from 5.1 us to 5.7, and one
// of 16 KiB from 8.9 to 12.0, while a tensor keeps its memory for as long as an operation needs it.
keel_status register_all_memory(keel_device device) {
  constexpr uintptr_t kBegin = 4096;
  // Above the user's half of every address space: 2^47 on x86-64, 2^56 there with five levels of
  // page tables, 2^48 or 2^52 on aarch64.
  constexpr uintptr_t kEnd = uintptr_t{1} << 56;
  return keel_host_register(device, reinterpret_cast<void*>(kBegin), kEnd - kBegin);
}

}  // namespace

Runtime& Runtime::get() {
  // Never destroyed: groups may outlive the destructors of static objects.
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() : process_(getpid()) {
  keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  if (std::getenv("KEEL_BACKENDS") == nullptr) options.backends = "cpu";
  const keel_status status = keel_init(&options);
  if (status != KEEL_ALREADY_EXISTS) check(status, "initialising Keel");
  check(keel_device_find("cpu", &device_), "looking for a CPU device");
  check(register_all_memory(device_), "declaring memory to the CPU device");
}

bool Runtime::is_forked() const {
  return getpid() != process_;
}

std::string failure_text(keel_status status) {
  return std::string(keel_status_name(status)) + ": " + keel_last_error();
}

void check(keel_status status, const char* what) {
  if (status == KEEL_OK) return;
  C10_THROW_ERROR(DistBackendError, "keel: " + std::string(what) + ": " + failure_text(status));
}

}  // namespace keel_torch
