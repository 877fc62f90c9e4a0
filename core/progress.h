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
  static void on_notify(void* user, keel_status status);
  using Records = std::list<Ref<EventRecord>>;  // moved about by splicing, which cannot fail
  void add(Records records);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t notifications_pending_ = 0;  // callbacks that plugins still owe
  Records incoming_;                    // to look at now
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_CORE_PROGRESS_H_
