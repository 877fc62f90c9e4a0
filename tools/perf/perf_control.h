// SPDX-License-Identifier: Apache-2.0
// Control messages between the processes of `keel perf`, on a communicator separate from the timed
// one.
#ifndef KEEL_TOOLS_PERF_PERF_CONTROL_H_
#define KEEL_TOOLS_PERF_PERF_CONTROL_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace keel::cli {

using PerfComm = api_detail::UniqueHandle<keel_comm, keel_comm_destroy>;

// Every process calls the same functions in the same order, from one thread at a time. Calls block
// for at most |timeout_ns| and throw keel::Error on a failure of Keel. A single process has no
// communicator.
class PerfControl {
 public:
  PerfControl(Device device, uint32_t process, uint32_t processes, int64_t timeout_ns);

  uint32_t process() const { return process_; }
  double max(double value);
  uint64_t sum(uint64_t value);
  // Broadcasts process 0's |bytes| to all processes.
  void broadcast(std::span<std::byte> bytes);
  // Returns every process's |text|, each at most 16 KiB.
  std::vector<std::string> gather(const std::string& text);

 private:
  // Copies host |send| to device memory, runs |function| on device memory, copies the result to
  // host |receive|.
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

#endif  // KEEL_TOOLS_PERF_PERF_CONTROL_H_
