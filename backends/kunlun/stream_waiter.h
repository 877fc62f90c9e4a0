// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_KUNLUN_STREAM_WAITER_H_
#define KEEL_BACKENDS_KUNLUN_STREAM_WAITER_H_

#include <keel/abi.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "vendor/xre.h"

namespace keel::kunlun {

// Finds out when events of one stream are done. XRE's published interface has a wait for an event
// without a deadline, and no query whose answers are documented, so a thread waits. The thread
// starts when a caller first asks about an event, and waits for the stream's events in the order of
// their records, up to the latest one that was asked about: a caller may have to see an event
// before work behind it can go on. Thread-safe.
class StreamWaiter : public std::enable_shared_from_this<StreamWaiter> {
 public:
  // |device|: XRE's number. |functions| is never destroyed.
  StreamWaiter(const xre::Functions& functions, int device)
      : functions_(functions), device_(device) {}

  // Appends |event|, which was just recorded on the stream. Returns the record's number, from 1.
  uint64_t add(xre::Event event);
  // Returns whether record |number| is over; |*out_result| is XRE's result then.
  bool query(uint64_t number, int* out_result);
  // Like query(), after blocking for at most |timeout_ns|.
  bool wait(uint64_t number, int64_t timeout_ns, int* out_result);
  // Calls |fn| once record |number| is over; at once if it is.
  void notify(uint64_t number, keel_notify_fn fn, void* user);
  // Drops record |number|. Returns whether XRE no longer uses its event, so that the caller may
  // destroy it.
  bool forget(uint64_t number);
  // Ends the thread. A thread that XRE does not let go of is left behind.
  void stop();

 private:
  struct Record {
    uint64_t number;
    xre::Event event;
  };
  struct Callback {
    uint64_t number;
    keel_notify_fn fn;
    void* user;
  };

  void run();
  // The functions below require |mutex_|.
  bool is_over(uint64_t number) const { return number <= done_ || failure_ != xre::kSuccess; }
  int result(uint64_t number) const { return number <= done_ ? int{xre::kSuccess} : failure_; }
  // Makes the thread wait for record |number|, unless it is over.
  void request(uint64_t number);
  std::vector<Callback> take_callbacks();

  const xre::Functions& functions_;
  const int device_;
  std::mutex mutex_;
  std::condition_variable requested_one_;
  std::condition_variable ended_one_;
  std::thread thread_;
  std::deque<Record> records_;       // not over, by number
  std::vector<Callback> callbacks_;  // of records that are not over
  uint64_t added_ = 0;
  uint64_t requested_ = 0;       // highest number asked about
  uint64_t done_ = 0;            // highest number that ended with success
  uint64_t awaited_ = 0;         // number of the record in xpu_event_wait; 0: none
  int failure_ = xre::kSuccess;  // of the first record that failed, and of all behind
  bool is_stopping_ = false;
};

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_STREAM_WAITER_H_
