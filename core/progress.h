// SPDX-License-Identifier: Apache-2.0
// The thread that lets streams of one backend continue after events of another.
#ifndef KEEL_CORE_PROGRESS_H_
#define KEEL_CORE_PROGRESS_H_

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "core/event.h"

namespace keel {

// One per process. The thread parks while nothing is watched. Devices with notifications wake the
// thread; devices without them are polled every 20 to 200 us. The thread makes no call that waits
// for a device.
//
// A callback lost by a plugin blocks nothing for good. While a callback is owed, the thread wakes
// every 500 ms and queries each event seen without its callback for 500 ms, at intervals of 20 to
// 160 ms. A callback still missing one second after its event was found done is logged as an error
// and given up.
class Progress {
 public:
  Progress();
  ~Progress();
  // Joins the thread and stops watching. Owed callbacks arrive during the call, so the runtime must
  // still have this object.
  void stop();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Once |record|, which is submitted, is done, the streams parked on the record continue. Any
  // thread may call, also with a stream's lock held.
  void watch(const Ref<EventRecord>& record);

 private:
  void run();
  // Queries the events with overdue callbacks; false if there are none.
  bool look(WakeList& wake);
  static void on_notify(void* user, keel_status status);
  using Records = std::list<Ref<EventRecord>>;  // moved by splicing, which cannot fail
  void add(Records records);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t notifications_pending_ = 0;  // callbacks that plugins still owe
  // The thread wakes for look(). Set by the first owed callback and cleared by a look when no
  // callback is owed, so that pairs of watch() and callback wake the thread for the callback alone.
  bool looks_ = false;
  Records incoming_;  // records to query now
  std::thread thread_;
};

}  // namespace keel

#endif  // KEEL_CORE_PROGRESS_H_
