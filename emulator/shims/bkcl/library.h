// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_BKCL_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_BKCL_LIBRARY_H_

#include <bkcl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "emulator/ccl/communicator.h"
#include "emulator/device.h"
#include "emulator/shims/xre/sharing.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::bkcl {

// The configuration of the shim. See docs/emulator.md.
struct Settings {
  uint64_t stuck = 0;        // number of the call whose work never ends; 0: none
  bool abort_hangs = false;  // bkcl_comm_abort never returns, and ends no work
};
// Parses KEEL_EMULATED_BKCL.
Status read_settings(std::string_view text, Settings* out_settings);

// One rank, the object behind a BKCLContext_t. All calls block until their work is enqueued, as
// BKCL documents no other mode.
struct Rank {
  int rank = 0;
  std::shared_ptr<Device> chip;
  std::unique_ptr<ccl::Communicator> member;
};

// The process-wide state of the library: its settings, the XRE shim that owns the chips and
// streams, and the live contexts. Thread-safe.
class Library {
 public:
  // Created at the first call from the environment, never destroyed.
  static Library& get();

  // Why the library cannot be used: bad settings, or no XRE of the emulated chip in the folder.
  const Status& trouble() const { return trouble_; }
  // Return the chip of the calling thread's current device, and a stream of that device.
  Status chip(std::shared_ptr<Device>* out_chip) const;
  Status stream(XPUStream handle, std::shared_ptr<Stream>* out_stream) const;
  const Settings& settings() const { return settings_; }
  // Counts a call; returns whether its work never ends.
  bool is_stuck() { return ++calls_ == settings_.stuck; }

  BKCLContext_t add(std::shared_ptr<Rank> rank);
  // Ends the process if |context| is no live context.
  std::shared_ptr<Rank> find(const char* function, BKCLContext_t context);
  // Like find(), and removes the context.
  std::shared_ptr<Rank> take(const char* function, BKCLContext_t context);

 private:
  Library();
  Status open_runtime();

  Settings settings_;
  Status trouble_;
  decltype(&keel_emulated_xre_chip) chip_ = nullptr;
  decltype(&keel_emulated_xre_stream) stream_ = nullptr;
  std::atomic<uint64_t> calls_{0};
  std::mutex mutex_;
  std::map<BKCLContext_t, std::shared_ptr<Rank>> ranks_;
};

// Ends the process with |why|: the caller relies on what the library does not define.
[[noreturn]] void end_process(const char* function, const std::string& why);

// Maps |status| to BKCL's result. BKCL has no function that returns a text: with KEEL_EMULATED_BKCL
// set, the text is written to stderr.
BKCLResult_t result_of(const char* function, const Status& status);
BKCLResult_t refuse(const char* function, const std::string& why);

}  // namespace keel::emulator::bkcl

#endif  // KEEL_EMULATOR_SHIMS_BKCL_LIBRARY_H_
