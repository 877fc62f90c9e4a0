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

#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/faults.h"
#include "emulator/memory.h"
#include "emulator/notifier.h"
#include "emulator/status.h"

namespace keel::emulator {

// The state of a stream that the queue's thread and the host share.
class StreamState {
 public:
  explicit StreamState(int priority) : priority_(priority) {}

  int priority() const { return priority_; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Returns the first failure of the stream's work.
  Status failure() const;
  // Returns the failure as soon as work has failed; else kNotReady while work is pending, then
  // success.
  Status query() const;
  // Blocks until no work is pending; kTimedOut at |deadline|.
  Status synchronize(Time deadline) const;

  void add();     // counts one more pending command
  void cancel();  // makes pending commands fail
  // Ends one pending command with |status|.
  void finish(Status status);
  // Ends a record and completes |completion| under one lock: a thread that sees |completion| done
  // also sees all work before the record done.
  void finish_record(Status status, Completion& completion, Time time);

 private:
  const int priority_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable drained_;
  uint64_t pending_ = 0;
  Status failure_;
};

// The body of one command; runs on the queue's thread.
using Kernel = std::function<Status(Access&)>;

struct Command {
  enum class Kind : uint8_t { kWork, kRecord, kWait };
  Kind kind = Kind::kWork;
  std::shared_ptr<StreamState> stream;
  Time enqueued_at;
  Injection injection;
  // Used by kWork:
  Work work;
  Kernel kernel;
  Address result = 0;  // range that an injected corruption modifies
  uint64_t result_size = 0;
  Memory* result_memory = nullptr;
  // Used by kRecord and kWait:
  std::shared_ptr<Completion> completion;
};

// A hardware queue: a thread that runs the commands of a stream, or of all streams of a device, one
// at a time. On a paced device each command ends at an absolute time of the queue's clock: a
// command begins when its predecessor ends or when it was enqueued, whichever is later, so
// oversleeping does not accumulate. The thread sleeps until that end.
class Queue {
 public:
  Queue(Device& device, uint64_t seed);
  ~Queue() { stop(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void push(Command command);
  // Cancels the stream's commands, including a hung one, and returns when no command of the stream
  // runs any more.
  void withdraw(StreamState& stream);
  // Cancels all commands and joins the thread. Later calls do nothing.
  void stop();

  const std::shared_ptr<Notifier>& notifier() const { return notifier_; }

 private:
  void run();
  void execute(Command& command);
  // The stages of a command; each may throw std::bad_alloc.
  Status prepare(Command& command);
  Status await(Command& command);
  Status perform(Command& command);
  // Applies the injected stall, loss and delay. Returns a failure when the work must not run.
  Status inject(const Command& command);
  Status corrupt(const Command& command);
  // Returns why |stream|'s work must stop; success if the work may run.
  Status interruption(const StreamState& stream) const;
  bool is_interrupted(const StreamState& stream) const {
    return stopping_.load() || stream.is_cancelled() || device_.is_lost();
  }
  void sleep_until(Time time, const StreamState& stream) {
    notifier_->wait_until(time, [&] { return is_interrupted(stream); });
  }

  Device& device_;
  const std::shared_ptr<Notifier> notifier_ = std::make_shared<Notifier>();
  std::mt19937_64 random_;
  Time now_;  // the queue's clock: end of its last command
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
