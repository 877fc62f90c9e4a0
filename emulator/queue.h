// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_QUEUE_H_
#define KEEL_EMULATOR_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "emulator/bell.h"
#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/faults.h"
#include "emulator/memory.h"
#include "emulator/status.h"

namespace keel::emulator {

// What a queue's thread and the host share of a stream.
class StreamState {
 public:
  explicit StreamState(int priority) : priority_(priority) {}

  int priority() const { return priority_; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // The first failure of its work.
  Status failure() const;
  // kNotReady while work is pending; else success or the failure.
  Status query() const;
  // Blocks until nothing is pending, or kTimedOut.
  Status synchronize(Time deadline) const;

  void add();     // one more is pending
  void cancel();  // what is pending fails
  // One is done.
  void finish(Status status);
  // The same for a record: when |completion| is done, so is all work before it, for
  // whoever asks.
  void finish_record(Status status, Completion& completion, Time time);

 private:
  const int priority_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable drained_;
  uint64_t pending_ = 0;
  Status failure_;
};

// Runs on the queue's thread.
using Kernel = std::function<Status(Access&)>;

struct Command {
  enum class Kind : uint8_t { kWork, kRecord, kWait };
  Kind kind = Kind::kWork;
  std::shared_ptr<StreamState> stream;
  Time enqueued_at;
  Injection injection;
  // kWork:
  Work work;
  Kernel kernel;
  Address result = 0;  // what a corruption hits
  uint64_t result_size = 0;
  Memory* result_memory = nullptr;
  // kRecord, kWait:
  std::shared_ptr<Completion> completion;
};

// A hardware queue: a thread that runs the commands of one stream, or of all streams of a
// device, one after the other. On a paced device each command ends at an absolute time
// of the queue's own clock: it begins where the one before ended, or when it came, and
// oversleeping does not add up. The thread sleeps until then.
class Queue {
 public:
  Queue(Device& device, uint64_t seed);
  ~Queue() { stop(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void push(Command command);
  // Cancels the stream's commands and returns when none of them runs any more, whatever
  // it hung in.
  void withdraw(StreamState& stream);
  // Cancels everything and joins the thread. Once.
  void stop();

  const std::shared_ptr<Bell>& bell() const { return bell_; }

 private:
  void run();
  void execute(Command& command);
  // The stages of a command. They may throw std::bad_alloc.
  Status prepare(Command& command);
  Status await(Command& command);
  Status perform(Command& command);
  // Stalls, loses, delays. Not a success when the work is not to run.
  Status inject(const Command& command);
  Status corrupt(const Command& command);
  // Why |stream|'s work must not go on; success if it may.
  Status interruption(const StreamState& stream) const;
  bool is_interrupted(const StreamState& stream) const {
    return stopping_.load() || stream.is_cancelled() || device_.is_lost();
  }
  void sleep_until(Time time, const StreamState& stream) {
    bell_->wait_until(time, [&] { return is_interrupted(stream); });
  }

  Device& device_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::mt19937_64 random_;
  Time now_;  // where the queue's clock stands: its last command's end
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> waiting_{0};

  std::mutex mutex_;
  std::condition_variable moved_on_;
  std::list<Command> commands_;
  const StreamState* current_ = nullptr;
  std::thread thread_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_QUEUE_H_
