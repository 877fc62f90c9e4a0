// SPDX-License-Identifier: Apache-2.0
// The process: Keel itself, its backends, and its diagnostics. Included by keel.hpp, which states
// the rules for all of its parts.
#ifndef KEEL_RUNTIME_HPP_
#define KEEL_RUNTIME_HPP_

#include <keel/keel.h>

#include <cstdint>
#include <keel/error.hpp>
#include <string>
#include <utility>
#include <vector>

namespace keel {
inline namespace v0 {

// Keel is initialised while this object lives. One a process. The destructor calls keel_shutdown,
// which ends the waits of other threads and blocks until they have left Keel.
class Runtime {
 public:
  Runtime() { check(keel_init(nullptr)); }
  explicit Runtime(const keel_init_options& options) { check(keel_init(&options)); }
  Runtime(Runtime&& other) noexcept : owner_(std::exchange(other.owner_, false)) {}
  Runtime& operator=(Runtime&& other) noexcept {
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~Runtime() {
    if (owner_) (void)keel_shutdown();
  }

 private:
  bool owner_ = true;
};

// Writes a trace to |path| while the object lives. Not thread-safe.
class Trace {
 public:
  explicit Trace(const std::string& path) { check(keel_trace_start(path.c_str())); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace() {
    if (writing_) (void)keel_trace_stop();
  }

  // Completes the file; throws KEEL_DATA_LOSS if the trace is incomplete.
  void stop() {
    if (std::exchange(writing_, false)) check(keel_trace_stop());
  }

 private:
  bool writing_ = true;
};

// Number of problems that the validation layer has found so far.
inline uint64_t validation_count() {
  uint64_t count = 0;
  check(keel_validation_count(&count));
  return count;
}

// Every plugin that Keel tried to load, with those that failed.
inline std::vector<keel_backend_info> backends() {
  uint32_t count = 0;
  check(keel_backend_count(&count));
  std::vector<keel_backend_info> all;
  for (uint32_t index = 0; index < count; ++index) {
    all.push_back(KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO));
    check(keel_backend_get(index, &all.back()));
  }
  return all;
}

// Describes the machine as JSON text; |synthetic|: a machine in hwloc's syntax instead.
inline std::string topology(const char* synthetic = nullptr) {
  return api_detail::read_text(
      [&](char* text, uint64_t* size) { return keel_topology_get(synthetic, text, size); });
}

// Records of flight recorders as JSON text; of a file, a folder or a process number.
inline std::string flight(const char* path_or_pid = nullptr) {
  return api_detail::read_text(
      [&](char* text, uint64_t* size) { return keel_flight_read(path_or_pid, text, size); });
}

}  // namespace v0
}  // namespace keel

#endif  // KEEL_RUNTIME_HPP_
