// SPDX-License-Identifier: Apache-2.0
#include "core/testing/refused_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace keel::testing {

namespace {

constexpr int64_t kAll = INT64_MAX / 2;
std::atomic<int64_t> g_left{kAll};  // negative: number of refused threads

}  // namespace

RefusedThreads::RefusedThreads(int64_t count) {
  g_left.store(count);
}

RefusedThreads::~RefusedThreads() {
  g_left.store(kAll);
}

int64_t RefusedThreads::refused() const {
  return std::max<int64_t>(0, -g_left.load());
}

}  // namespace keel::testing

// Exported to the libraries that create threads.
#pragma GCC visibility push(default)
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  // The next definition after this program's: the sanitizer's or the system's.
  using Function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "pthread_create"));
  if (keel::testing::g_left.fetch_sub(1) <= 0) return EAGAIN;
  return real(thread, attributes, run, argument);
}
#pragma GCC visibility pop
