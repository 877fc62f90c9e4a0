// SPDX-License-Identifier: Apache-2.0
// A worker process as the runner sees it.
#ifndef KEEL_CONFORMANCE_WORKER_PROCESS_H_
#define KEEL_CONFORMANCE_WORKER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "conformance/protocol.h"

namespace keel::conformance {

// Owns one process, this program started anew, and kills it with all it started when it
// goes. For one thread.
class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Read { kAnswer, kClosed, kTimedOut };

  // Throws std::system_error where the process cannot be started.
  explicit WorkerProcess(const WorkerRequest& request);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // The next answer; packets that are none are passed over. kClosed when the worker has closed its
  // end, which is to say ended.
  Read read(Clock::time_point deadline, WorkerAnswer* out_answer);
  // Ends it, if it has not ended, and says how it did: "killed by signal 11
  // (Segmentation fault)", "exited with status 3".
  std::string finish();
  // Of a traced worker that has ended: the plugin's calls that were in progress, a line each. Empty
  // where the case did not go through Keel.
  std::string calls_in_progress() const;
  // The last of what it printed since it was asked last, at most 4 KiB.
  std::string take_printed();

 private:
  bool take_answer(WorkerAnswer* out_answer);
  bool receive();
  void gather_printed();

  pid_t pid_ = -1;
  int answers_ = -1;
  int output_ = -1;
  int notes_ = -1;  // of calls
  PacketReader reader_;
  std::vector<PacketReader::Message> messages_;
  size_t taken_ = 0;  // of them
  std::vector<std::byte> packet_;
  std::string printed_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_WORKER_PROCESS_H_
