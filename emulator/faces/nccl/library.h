// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_NCCL_LIBRARY_H_
#define KEEL_EMULATOR_FACES_NCCL_LIBRARY_H_

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "emulator/device.h"
#include "emulator/faces/cuda/driver_beside.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::nccl {

// What the face is asked to be. See docs/emulator.md.
struct Settings {
  int version = NCCL_VERSION_CODE;  // what ncclGetVersion says
  uint64_t stuck = 0;         // the number of the group that does not get onto its streams; 0: none
  uint64_t ids = UINT64_MAX;  // unique ids that it gives; after those it fails to
};
// From KEEL_EMULATED_NCCL.
Status read_settings(std::string_view text, Settings* out_settings);

// The state of the library in this process: its settings, and the face of the driver beside it,
// whose chips and streams it works on. Thread-safe.
class Library {
 public:
  // Made at the first call, from the environment; for ever.
  static Library& get();

  const Settings& settings() const { return settings_; }
  // Why the library cannot be used: bad settings, or no driver of the emulated chip beside it.
  const Status& trouble() const { return trouble_; }
  // Of the calling thread's current context. kUnavailable where there is none.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(cudaStream_t handle, Stream** out_stream) const;
  // Counts a unique id; whether it is one too many.
  bool is_out_of_ids() { return ++ids_ > settings_.ids; }
  // Counts a group; whether it is the one that gets stuck.
  bool is_stuck() { return ++groups_ == settings_.stuck; }

 private:
  Library();

  Settings settings_;
  Status trouble_;
  cuda::DriverBeside driver_;
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint64_t> groups_{0};
};

// |status| as the library says it; its text is what ncclGetLastError gives this thread.
ncclResult_t result_of(const Status& status);
ncclResult_t fail(ncclResult_t result, std::string text);
const char* last_error();

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_FACES_NCCL_LIBRARY_H_
