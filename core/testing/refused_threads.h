// SPDX-License-Identifier: Apache-2.0
// Makes the system refuse threads, as when a user or a control group has reached its limit.
#ifndef KEEL_CORE_TESTING_REFUSED_THREADS_H_
#define KEEL_CORE_TESTING_REFUSED_THREADS_H_

#include <cstdint>

namespace keel::testing {

// While alive, |count| more threads of this process start, and no further one: the program's own
// pthread_create in refused_threads.cc returns EAGAIN. RLIMIT_NPROC would not bind root, and would
// count the threads of other programs. One object at a time.
class RefusedThreads {
 public:
  explicit RefusedThreads(int64_t count);
  ~RefusedThreads();
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;

  // Returns the number of threads refused so far.
  int64_t refused() const;
};

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_REFUSED_THREADS_H_
