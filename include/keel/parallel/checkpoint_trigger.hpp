// SPDX-License-Identifier: Apache-2.0
// When to save: after a number of steps, after a time, or on a signal.
//
//   CheckpointTrigger trigger(mesh.world(), device, {.every_steps = 500, .signal = SIGUSR1});
//   if (trigger.is_due(step)) writer.save(...);      // on all ranks at the same step
#ifndef KEEL_PARALLEL_CHECKPOINT_TRIGGER_HPP_
#define KEEL_PARALLEL_CHECKPOINT_TRIGGER_HPP_

#include <chrono>
#include <cstdint>
#include <keel/keel.hpp>

namespace keel::parallel {
inline namespace v0 {

struct CheckpointTriggerOptions {
  int64_t every_steps = 0;                               // 0: not by steps
  std::chrono::seconds every = std::chrono::seconds(0);  // since the last save; 0: not by time
  // Sent to any rank's process; 0: none. The trigger installs a handler for the process, and the
  // destructor puts the old one back. One trigger a process may have a signal, or several the same.
  int signal = 0;
};

// One rank's part of the decision. Not thread-safe.
class CheckpointTrigger {
 public:
  // |world|: duplicated; every rank constructs with the same options; waits for all ranks.
  CheckpointTrigger(Communicator& world, Device device, CheckpointTriggerOptions options);
  ~CheckpointTrigger();
  CheckpointTrigger(const CheckpointTrigger&) = delete;
  CheckpointTrigger& operator=(const CheckpointTrigger&) = delete;

  // The same answer on all ranks, each of which calls behind each step: whether to save. Signals
  // and clocks reach ranks at different times; with a signal or a time the ranks compare notes, and
  // the call waits for all of them.
  bool is_due(int64_t step);

 private:
  CheckpointTriggerOptions options_;
  Communicator lane_;
  Stream stream_;
  Buffer note_;
  uint64_t seen_ = 0;  // signals
  std::chrono::steady_clock::time_point last_;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_CHECKPOINT_TRIGGER_HPP_
