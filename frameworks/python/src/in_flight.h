// SPDX-License-Identifier: Apache-2.0
// Objects of Python that work in flight still uses.
#ifndef FRAMEWORKS_PYTHON_SRC_IN_FLIGHT_H_
#define FRAMEWORKS_PYTHON_SRC_IN_FLIGHT_H_

#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

namespace keel_python {

// Keeps owners of host memory alive until the streams that use the memory are done. Keel's own
// memory needs this inside a group alone: Keel reuses a freed block only after the work enqueued
// before, but calls of an open group are not enqueued yet.
//
// Keel's callback thread never takes the GIL: a callback marks its entry, and the next hold() or
// sweep() drops marked entries. After a failure other ranks may still read the memory, so the entry
// stays until the stream is recovered or closed.
//
// Called with the GIL held, which guards the list.
class InFlight {
 public:
  static InFlight& get();

  // Keeps |owner| until the work enqueued on |stream| so far is done; within a group, until the
  // work of the group is done.
  void hold(keel_stream stream, std::shared_ptr<void> owner);
  // Drops what is no longer used.
  void sweep();
  // Drops what failed work of |stream| has used, once the callbacks have come; the stream is
  // recovered or destroyed.
  void release(keel_stream stream);
  // Drops everything, after keel_shutdown.
  void release_all();

  // Surround a group of the calling thread.
  void begin_group();
  void end_group();
  bool is_in_group() const;

 private:
  enum State : int { kRunning, kDone, kFailed };
  struct Entry {
    keel_stream stream;
    std::shared_ptr<void> owner;
    std::shared_ptr<std::atomic<int>> state;
    bool is_over = false;  // the stream was recovered or destroyed: no work of it runs
  };

  void add(keel_stream stream, std::shared_ptr<void> owner);
  template <typename Condition>
  void drop(const Condition& condition);

  std::list<Entry> entries_;
};

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_IN_FLIGHT_H_
