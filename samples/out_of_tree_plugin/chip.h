// SPDX-License-Identifier: Apache-2.0
// The chip that the plugin drives: memory of limited size, and streams that are host threads. A
// plugin for a real chip calls the vendor's SDK here.
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

// Thread-safe.
class Memory {
 public:
  // Returns memory aligned to kAlignment. If fewer than |size| bytes are left, returns
  // KEEL_OUT_OF_MEMORY and allocates nothing.
  keel_status alloc(uint64_t size, void** out_pointer);
  void free(void* pointer);
  uint64_t left();

 private:
  std::mutex mutex_;
  uint64_t used_ = 0;
  std::unordered_map<void*, uint64_t> sizes_;
};

// Marks a point in a stream. abi.h promises that an event is recorded again only when it is done
// and no thread waits for it, so the event needs no count of its records.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  void begin();
  // |status| is KEEL_OK or the stream's failure. Wakes waiting threads and calls the listeners.
  void finish(keel_status status);

  // Returns KEEL_NOT_READY, KEEL_OK or the failure.
  keel_status query();
  // Blocks until the event is done, or for |timeout_ns|; then returns KEEL_TIMED_OUT.
  keel_status wait(int64_t timeout_ns);
  void wait();
  // Calls |fn| once: from the stream's thread, or at once in the calling thread if the event is
  // already done.
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

// A thread that runs work in the order of enqueueing.
class Stream {
 public:
  using Work = std::function<keel_status()>;

  // |conformance|: belongs to an instance whose work may be made to fail or wait.
  explicit Stream(bool conformance) : conformance_(conformance), thread_([this] { run(); }) {}
  ~Stream();  // blocks until all work is done
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool conformance() const { return conformance_; }

  // After a failure of any work, no later work runs.
  void enqueue(Work work);
  // The event is done when all work enqueued earlier is done, and gets the stream's failure if
  // there is one. Shared ownership: a thread that sees the event done may destroy its handle at
  // once, while finish() is still returning.
  void record(std::shared_ptr<Event> event);
  // Work enqueued later runs after |event| is done.
  void wait_for(std::shared_ptr<Event> event);

 private:
  void push(std::function<void()> task);
  void run();

  const bool conformance_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  keel_status failure_ = KEEL_OK;  // used only by the thread
  std::thread thread_;             // last: the thread uses all of the above
};

}  // namespace tinychip

#endif  // TINYCHIP_CHIP_H_
