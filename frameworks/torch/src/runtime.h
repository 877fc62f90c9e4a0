// SPDX-License-Identifier: Apache-2.0
// Keel in the process of a PyTorch program: initialisation, the device, and failures as PyTorch's
// exceptions.
#ifndef FRAMEWORKS_TORCH_SRC_RUNTIME_H_
#define FRAMEWORKS_TORCH_SRC_RUNTIME_H_

#include <keel/keel.h>
#include <sys/types.h>

#include <string>

namespace keel_torch {

// Keel, initialised with the plugin `cpu` alone (or those of KEEL_BACKENDS) on first use, for the
// rest of the process. Thread-safe.
class Runtime {
 public:
  // Throws c10::DistBackendError if Keel cannot be initialised or has no CPU device.
  static Runtime& get();

  keel_device device() const { return device_; }
  // Returns whether this process was forked from the process that initialised Keel: Keel then
  // refuses every call, and the parent's threads do not exist.
  bool is_forked() const;

 private:
  Runtime();

  keel_device device_{};
  pid_t process_;
};

// Returns "KEEL_RANK_FAILED: rank 1 (cpu:0, process 4711) died": the calling thread's last failure.
std::string failure_text(keel_status status);

// Throws |what| and the calling thread's last failure as c10::DistBackendError unless |status| is
// KEEL_OK.
void check(keel_status status, const char* what);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_RUNTIME_H_
