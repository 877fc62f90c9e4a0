// SPDX-License-Identifier: Apache-2.0
// The thread that notices when events of one backend let streams of another go on.
#ifndef KEEL_CORE_PROGRESS_H_
#define KEEL_CORE_PROGRESS_H_

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "core/event.h"

namespace keel {

// One a process. It parks while nothing is watched; devices that notify wake it, the
// others are polled every 20 to 200 us. It makes no call that waits for a device.
//
// A callback that a plugin loses holds nothing up for good: while any is owed the thread wakes
// every 500 ms, and asks for an event that it has seen that long without a callback, at pauses of
// 20 to 160 ms. A callback that has not come a second after its event was found done is logged as
// an error and given up.
class Progress {
 public:
  Progress();
  ~Progress();
  // Joins the thread; nothing is watched any more. Callbacks that are still owed come in
  // meanwhile, so it is called while the runtime still has this object.
  void stop();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Once |record|, which is submitted, is done, the streams parked on it go on. Any
  // thread may call, also with a stream's lock held.
  void watch(const Ref<EventRecord>& record);

 private:
  void run();
  // Asks for the events whose callbacks are overdue; false when none is.
  bool look(WakeList& wake);
  static void on_notify(void* user, keel_status status);
  using Records = std::list<Ref<EventRecord>>;  // moved about by splicing, which cannot fail
  void add(Records records);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t notifications_pending_ = 0;  // callbacks that plugins still owe
  // The thread wakes for look(). Set by the first callback that is owed and taken back by a look
  // that finds none, so that pairs of watch() and callback wake the thread for the callback alone.
  bool looks_ = false;
  Records incoming_;  // to look at now
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_CORE_PROGRESS_H_
