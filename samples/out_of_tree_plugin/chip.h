// SPDX-License-Identifier: Apache-2.0
// The chip that the plugin drives: memory of a limited size, and streams that each are a
// thread of the host. In a plugin for a real chip the vendor's SDK stands here.
#ifndef TINYCHIP_CHIP_H_
#define TINYCHIP_CHIP_H_

#include <keel/abi.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace tinychip {

constexpr uint64_t kMemoryBytes = uint64_t{768} << 20;
constexpr uint32_t kAlignment = 256;

// Any thread may call any member.
class Memory {
 public:
  // Aligned to kAlignment. Where fewer than |size| bytes are left: KEEL_OUT_OF_MEMORY, and
  // nothing is taken.
  keel_status alloc(uint64_t size, void** out_pointer);
  void free(void* pointer);
  uint64_t left();

 private:
  std::mutex mutex_;
  uint64_t used_ = 0;
  std::unordered_map<void*, uint64_t> sizes_;
};

// Marks a point of a stream. As abi.h promises, it is recorded again only when it is done
// and nobody waits for it any more, so it needs no count of its records.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  void begin();
  // |status| is KEEL_OK or the failure of the stream; wakes and tells whoever waits.
  void finish(keel_status status);

  // KEEL_NOT_READY, KEEL_OK or the failure.
  keel_status query();
  // Blocks until then, or for |timeout_ns| and says KEEL_TIMED_OUT.
  keel_status wait(int64_t timeout_ns);
  void wait();
  // Calls |fn| once, from the stream's thread; at once if the event is done already.
  void notify(keel_notify_fn fn, void* user);
  Clock::time_point time();

 private:
  struct Listener {
    keel_notify_fn fn;
    void* user;
  };

  std::mutex mutex_;
  std::condition_variable finished_;
  keel_status status_ = KEEL_NOT_READY;
  Clock::time_point time_;
  std::deque<Listener> listeners_;
};

// Work runs in the order in which it was enqueued, in a thread of the stream.
class Stream {
 public:
  using Work = std::function<keel_status()>;

  // |conformance|: of an instance whose work may be made to fail or wait.
  explicit Stream(bool conformance) : conformance_(conformance), thread_([this] { run(); }) {}
  ~Stream();  // after all work
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool conformance() const { return conformance_; }

  // Once some work has failed, no later work runs.
  void enqueue(Work work);
  // The event is done when all work enqueued before is; it gets the stream's failure if
  // there is one. Shared: whoever sees that it is done may destroy it at once, while
  // finish() is still on its way out.
  void record(std::shared_ptr<Event> event);
  // Work enqueued later runs after |event|.
  void wait_for(std::shared_ptr<Event> event);

 private:
  void push(std::function<void()> task);
  void run();

  const bool conformance_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  keel_status failure_ = KEEL_OK;  // the thread's alone
  std::thread thread_;             // last: it uses all of the above
};

}  // namespace tinychip

#endif  // TINYCHIP_CHIP_H_
