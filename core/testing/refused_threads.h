// SPDX-License-Identifier: Apache-2.0
// Threads that the system refuses, as where a user or a control group has as many as it may.
#ifndef KEEL_CORE_TESTING_REFUSED_THREADS_H_
#define KEEL_CORE_TESTING_REFUSED_THREADS_H_

#include <cstdint>

namespace keel::testing {

// While one of these lives, |count| more threads of this process start, and then none: the
// program's own pthread_create, which refused_threads.cc has, returns EAGAIN. RLIMIT_NPROC would
// not bind root, and would count the threads of other programs. One at a time.
class RefusedThreads {
 public:
  explicit RefusedThreads(int64_t count);
  ~RefusedThreads();
  RefusedThreads(const RefusedThreads&) = delete;
  RefusedThreads& operator=(const RefusedThreads&) = delete;

  // Threads that were refused so far.
  int64_t refused() const;
};

}  // namespace keel::testing

#endif  // KEEL_CORE_TESTING_REFUSED_THREADS_H_
