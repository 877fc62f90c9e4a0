// SPDX-License-Identifier: Apache-2.0
// The runner's side of a worker process.
#ifndef KEEL_CONFORMANCE_WORKER_PROCESS_H_
#define KEEL_CONFORMANCE_WORKER_PROCESS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/ipc/process.h"
#include "conformance/protocol.h"

namespace keel::conformance {

// Owns one process, a new instance of this program. The destructor kills the process and the whole
// process group. Not thread-safe.
class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Read { kAnswer, kClosed, kTimedOut };

  // Throws std::system_error if the process cannot be started.
  explicit WorkerProcess(const WorkerRequest& request);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Reads the next answer and skips packets that are not answers. Returns kClosed when the worker
  // has closed its end, that is, has ended.
  Read read(Clock::time_point deadline, WorkerAnswer* out_answer);
  // Ends the process if necessary and describes how it ended: "killed by signal 11 (Segmentation
  // fault)", "exited with status 3".
  std::string finish();
  // Returns the plugin calls that were in progress when a traced worker ended, one per line. Empty
  // if the case did not go through Keel.
  std::string calls_in_progress() const;
  // Drops what the worker had printed before case |id| began.
  void drop_printed_before(const std::string& id);
  // Returns at most the last 4 KiB of the worker's output since the previous call, up to where the
  // next case began.
  std::string take_printed();

 private:
  bool take_answer(WorkerAnswer* out_answer);
  bool receive();
  void gather_printed();

  Process process_;
  FileDescriptor answers_;
  FileDescriptor notes_;  // file of the calls in progress
  PacketReader reader_;
  std::vector<PacketReader::Message> messages_;
  size_t taken_ = 0;  // messages already returned
  std::vector<std::byte> packet_;
  std::string printed_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_WORKER_PROCESS_H_
