// SPDX-License-Identifier: Apache-2.0
// User kernels: functions of a shared object that run over a grid.
#ifndef KEEL_BACKENDS_CPU_RUNTIME_MODULE_H_
#define KEEL_BACKENDS_CPU_RUNTIME_MODULE_H_

#include <keel/abi.h>
#include <keel/cpu_kernel.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/runtime/shared_object.h"
#include "backends/cpu/runtime/stream.h"

namespace keel::cpu {

class Launch;
class Module;

struct Kernel {
  Module& module;
  keel_cpu_kernel function;
};

// A loaded shared object, its kernels and the memory of their launches. Outlives the launches.
// Thread-safe.
class Module {
 public:
  // Most dynamic shared memory of a block: a core's second-level cache holds no more.
  static constexpr uint32_t kMaxSharedBytes = 1 << 20;

  static keel_status load(keel_binary_format format, const void* data, uint64_t size,
                          std::unique_ptr<Module>* out_module);
  ~Module();

  // Returns NULL when the object has no function |name|. The module owns the kernel.
  Kernel* find(const char* name);
  // Enqueues |kernel| of this module with a copy of its arguments.
  keel_status launch(Stream& stream, const Kernel& kernel, const keel_launch& launch);

 private:
  friend class Launch;
  explicit Module(std::unique_ptr<SharedObject> object);

  Launch& acquire();
  void give_back(Launch& launch);

  const std::unique_ptr<SharedObject> object_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  // Reused, so that a steady sequence of launches allocates nothing. Launches dropped by a failed
  // stream are never given back; the module frees them.
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Launch*> idle_launches_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_MODULE_H_
