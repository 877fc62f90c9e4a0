// SPDX-License-Identifier: Apache-2.0
#include "emulator/queue.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <keel/thread_start.hpp>
#include <new>
#include <utility>
#include <vector>

namespace keel::emulator {
namespace {

// A slow fault may exceed the clock's range: at most 31 years, longer than any process.
Duration slowed(double nanoseconds) {
  return Duration(static_cast<int64_t>(std::min(nanoseconds, 1e18)));
}

}  // namespace

// ---- stream state --------------------------------------------------------------

Status StreamState::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status StreamState::query() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  return pending_ == 0 ? Status() : Status::not_ready();
}

Status StreamState::synchronize(Time deadline) const {
  std::unique_lock lock(mutex_);
  if (!drained_.wait_until(lock, deadline, [this] { return pending_ == 0; })) {
    return Status(Code::kTimedOut);
  }
  return failure_;
}

void StreamState::add() {
  const std::lock_guard lock(mutex_);
  ++pending_;
}

void StreamState::cancel() {
  cancelled_.store(true, std::memory_order_release);
}

void StreamState::finish(Status status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  if (--pending_ == 0) drained_.notify_all();
}

void StreamState::finish_record(Status status, Completion& completion, Time time) {
  std::vector<Completion::Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
    status = failure_;
    callbacks = completion.complete(status, time);
    if (--pending_ == 0) drained_.notify_all();
  }
  for (const auto& callback : callbacks) callback(status);
}

// ---- queue ---------------------------------------------------------------------

Queue::Queue(Device& device, uint64_t seed)
    : device_(device),
      random_(seed),
      thread_(kit::start_thread<std::thread>("keel-emulator", [this] { run(); })) {}

// Everything that may throw std::bad_alloc precedes the first change of shared state.
void Queue::push(Command command) {
  command.enqueued_at = Clock::now();
  std::list<Command> last;
  last.push_back(std::move(command));
  last.front().stream->add();
  {
    const std::lock_guard lock(mutex_);
    commands_.splice(commands_.end(), last);
    waiting_.store(commands_.size());
  }
  notifier_->ring();
}

void Queue::withdraw(StreamState& stream) {
  stream.cancel();
  notifier_->ring();
  std::unique_lock lock(mutex_);
  moved_on_.wait(lock, [&] { return current_ != &stream; });
}

void Queue::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  notifier_->ring();
  thread_.join();
}

void Queue::run() {
  // Linux's default timer slack of 50 us is longer than many a command.
  if (device_.is_paced()) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  while (true) {
    notifier_->wait_until(Time::max(), [this] { return waiting_.load() != 0 || stopping_.load(); });
    Command command;
    {
      const std::lock_guard lock(mutex_);
      if (commands_.empty()) return;  // stopping
      command = std::move(commands_.front());
      commands_.pop_front();
      waiting_.store(commands_.size());
      current_ = command.stream.get();
    }
    execute(command);
    {
      const std::lock_guard lock(mutex_);
      current_ = nullptr;
    }
    moved_on_.notify_all();
  }
}

Status Queue::interruption(const StreamState& stream) const {
  Status lost = device_.alive();
  if (!lost.ok()) return lost;
  if (stopping_.load() || stream.is_cancelled()) {
    return {Code::kCancelled, "the stream was destroyed"};
  }
  return {};
}

Status Queue::prepare(Command& command) {
  const StreamState& stream = *command.stream;
  Status status = stream.failure();
  if (status.ok()) status = interruption(stream);
  if (!status.ok()) return status;
  switch (command.kind) {
    case Command::Kind::kWork:
      return perform(command);
    case Command::Kind::kRecord:
      return inject(command);
    case Command::Kind::kWait:
      return await(command);
  }
  return status;
}

void Queue::execute(Command& command) {
  StreamState& stream = *command.stream;
  Status status;
  try {
    status = prepare(command);
  } catch (const std::bad_alloc&) {
    status = Status(Code::kOutOfMemory);
  }
  if (!status.ok() && status.code() != Code::kCancelled && device_.options().failure_is_loss) {
    device_.lose(status.text(), status.code());
    status = device_.alive();
  }
  command.kernel = nullptr;  // releases captured objects before any waiter wakes
  if (command.kind != Command::Kind::kRecord) {
    stream.finish(std::move(status));
    return;
  }
  now_ = std::max(now_, command.enqueued_at);
  stream.finish_record(std::move(status), *command.completion, now_);
}

Status Queue::await(Command& command) {
  const StreamState& stream = *command.stream;
  Completion& awaited = *command.completion;
  if (!awaited.is_done()) {
    awaited.notify([notifier = notifier_](const Status&) { notifier->ring(); });
    notifier_->wait_until(Time::max(), [&] { return awaited.is_done() || is_interrupted(stream); });
  }
  // A failure of the awaited work is reported on its own stream; here it only ends the wait.
  if (awaited.is_done()) now_ = std::max(now_, awaited.time());
  return interruption(stream);
}

Status Queue::inject(const Command& command) {
  const Injection& injection = command.injection;
  const StreamState& stream = *command.stream;
  if (injection.stall) {
    const uint64_t generation = device_.stall_generation();
    const Time until =
        injection.stall_for.count() == 0 ? Time::max() : Clock::now() + injection.stall_for;
    notifier_->wait_until(
        until, [&] { return is_interrupted(stream) || device_.stall_generation() != generation; });
    now_ = std::max(now_, Clock::now());
  }
  if (injection.lose) device_.lose(fmt::format("injected at {}", injection.call()));
  const uint32_t delay_us = device_.options().delay_us;
  if (delay_us != 0) {
    now_ = std::max(now_, command.enqueued_at) +
           std::chrono::microseconds(random_() % (uint64_t{delay_us} + 1));
    sleep_until(now_, stream);
  }
  Status status = interruption(stream);
  if (status.ok() && injection.fail) {
    return {Code::kFailed,
            fmt::format("{}: injected failure of {}", device_.name(), injection.call())};
  }
  return status;
}

Status Queue::perform(Command& command) {
  const StreamState& stream = *command.stream;
  Status status = inject(command);
  if (!status.ok()) return status;
  Engine& engine = device_.engine(command.work.engine);
  if (!engine.acquire(stream.priority(), notifier_, [&] { return is_interrupted(stream); })) {
    return interruption(stream);
  }
  const Time begun = Clock::now();
  try {
    Access access(device_.memory());
    status = command.kernel(access);
    if (status.ok() && command.injection.corrupt) status = corrupt(command);
  } catch (const std::bad_alloc&) {
    status = Status(Code::kOutOfMemory);
  }
  const Time ended = Clock::now();

  // Launches are pipelined: the latency counts from the enqueue.
  Time end = std::max({now_, command.enqueued_at, ended});
  if (device_.is_paced()) {
    const Time start =
        std::max({now_, command.enqueued_at + device_.launch_latency(), engine.free_at()});
    const Work& work = command.work;
    const Duration nominal =
        work.takes_host_time ? Duration(ended - begun) : device_.duration_of(work);
    end = start + slowed(static_cast<double>(nominal.count()) * command.injection.slow);
  } else if (command.injection.slow > 1) {
    const auto taken = static_cast<double>(Duration(ended - begun).count());
    end += slowed(taken * (command.injection.slow - 1));
  }
  if (end > ended) sleep_until(end, stream);
  now_ = end;
  engine.release(end);
  Status interrupted = interruption(stream);
  return interrupted.ok() ? status : interrupted;
}

Status Queue::corrupt(const Command& command) {
  if (command.result_size == 0) return {};
  std::byte* data = nullptr;
  std::shared_ptr<Storage> keep;
  if (command.result_memory != nullptr) {
    Status status =
        command.result_memory->resolve(command.result, command.result_size, &data, &keep);
    if (!status.ok()) return status;
  } else {
    data = reinterpret_cast<std::byte*>(command.result);
  }
  const uint64_t bit = random_() % 8;
  data[random_() % command.result_size] ^= std::byte{1} << bit;
  return {};
}

}  // namespace keel::emulator
