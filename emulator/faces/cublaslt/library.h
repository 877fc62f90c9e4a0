// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUBLASLT_LIBRARY_H_
#define KEEL_EMULATOR_FACES_CUBLASLT_LIBRARY_H_

#include <cublasLt.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/faces/cuda/driver_beside.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::cublaslt {

// What the face is asked to be. See docs/emulator.md.
struct Settings {
  size_t version = CUBLAS_VERSION;                   // what cublasLtGetVersion says
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;     // what cublasLtCreate says
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS;  // what the heuristic says of any product
  cublasStatus_t matmul = CUBLAS_STATUS_SUCCESS;     // what cublasLtMatmul says
  bool kernels = true;        // false: the heuristic finds none, and says that all is well
  uint64_t workspace = 4096;  // bytes that a kernel wants for a long k
};
// From KEEL_EMULATED_CUBLASLT.
Status read_settings(std::string_view text, Settings* out_settings);

// The state of the library in this process: its settings, and the face of the driver, whose chips
// and streams it works on. Thread-safe.
class Library {
 public:
  // Made at the first call, from the environment; for ever.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Of the calling thread's current context. kUnavailable where the settings are bad, or there is
  // no driver of the emulated chip.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(cudaStream_t handle, Stream** out_stream) const;

  // For tests: how often the heuristic was asked, and products were enqueued.
  std::atomic<uint64_t> heuristics{0};
  std::atomic<uint64_t> products{0};

 private:
  Library();

  Settings settings_;
  Status trouble_;
  cuda::DriverBeside driver_;
};

// What is behind a handle: made for one chip, as the library's is for one context.
struct Handle {
  std::shared_ptr<Device> chip;
};

// |result|, and why on stderr: the interface has no room for words.
cublasStatus_t fail(cublasStatus_t result, const std::string& why);

}  // namespace keel::emulator::cublaslt

#endif  // KEEL_EMULATOR_FACES_CUBLASLT_LIBRARY_H_
