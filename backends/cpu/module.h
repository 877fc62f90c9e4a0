// SPDX-License-Identifier: Apache-2.0
// Kernels of the caller: functions of a shared object that run over a grid.
#ifndef KEEL_BACKENDS_CPU_MODULE_H_
#define KEEL_BACKENDS_CPU_MODULE_H_

#include <keel/abi.h>
#include <keel/cpu_kernel.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/shared_object.h"
#include "backends/cpu/stream.h"

namespace keel::cpu {

class Launch;
class Module;

struct Kernel {
  Module& module;
  keel_cpu_kernel function;
};

// A loaded shared object, its kernels and the memory of their launches. Outlives the
// launches. Thread-safe.
class Module {
 public:
  // A core's second-level cache holds no more.
  static constexpr uint32_t kMaxSharedBytes = 1 << 20;

  static keel_status load(keel_binary_format format, const void* data, uint64_t size,
                          std::unique_ptr<Module>* out_module);
  ~Module();

  // Lives with the module; NULL when it has no function of that name.
  Kernel* find(const char* name);
  // Enqueues |kernel| of this module with its arguments copied.
  keel_status launch(Stream& stream, const Kernel& kernel, const keel_launch& launch);

 private:
  friend class Launch;
  explicit Module(std::unique_ptr<SharedObject> object);

  Launch& acquire();
  void give_back(Launch& launch);

  const std::unique_ptr<SharedObject> object_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  // Used again, so that a steady stream of launches allocates nothing. What a failed
  // stream drops is never given back, and goes with the module.
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Launch*> idle_launches_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_MODULE_H_
