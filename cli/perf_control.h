// SPDX-License-Identifier: Apache-2.0
// What the processes of `keel perf` tell each other, on a communicator apart from the one
// that is timed.
#ifndef KEEL_CLI_PERF_CONTROL_H_
#define KEEL_CLI_PERF_CONTROL_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keel::cli {

using PerfComm = api_detail::UniqueHandle<keel_comm, keel_comm_destroy>;

// Every process calls the same functions in the same order, each from one thread at a time.
// They block, for |timeout| at most. keel::Error where Keel fails. One process alone needs no
// communicator, and has none.
class PerfControl {
 public:
  PerfControl(Device device, uint32_t process, uint32_t processes, int64_t timeout_ns);

  uint32_t process() const { return process_; }
  double max(double value);
  uint64_t sum(uint64_t value);
  // Process 0's, to all.
  void broadcast(std::span<std::byte> bytes);
  // One of each process, up to 16 KiB each.
  std::vector<std::string> gather(const std::string& text);

 private:
  // |bytes| of the host through |function|, which is given device memory.
  template <typename Function>
  void on_device(std::span<std::byte> send, std::span<std::byte> receive, const Function& function);

  uint32_t process_;
  uint32_t processes_;
  Device device_;
  int64_t timeout_ns_;
  std::optional<Stream> stream_;
  PerfComm comm_;
};

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_CONTROL_H_
