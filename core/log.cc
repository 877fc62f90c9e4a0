// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/insiders.h"
#include "core/log_level.h"

namespace keel {

namespace {

keel_log_level level_from_environment() {
  const char* wanted = secure_getenv("KEEL_LOG");
  if (wanted == nullptr) return KEEL_LOG_WARNING;
  if (const auto level = find_log_level(wanted)) return *level;
  std::fprintf(stderr, "keel: KEEL_LOG=%s is no level: trace, debug, info, warning, error, off\n",
               wanted);
  return KEEL_LOG_WARNING;
}

struct Sink {
  std::atomic<keel_log_level> level{level_from_environment()};
  std::mutex mutex;  // guards fn and user, and keeps lines whole
  keel_log_fn fn = nullptr;
  void* user = nullptr;
};

// Never destroyed: threads of vendor SDKs log during process exit.
Sink& sink() {
  static Sink& instance = *new Sink;
  return instance;
}

}  // namespace

bool log_enabled(keel_log_level level) {
  return level >= sink().level.load(std::memory_order_relaxed);
}

void log_text(keel_log_level level, const char* text) {
  if (!log_enabled(level) || level >= KEEL_LOG_OFF) return;
  keel_log_fn fn = nullptr;
  void* user = nullptr;
  {
    std::lock_guard lock(sink().mutex);
    fn = sink().fn;
    user = sink().user;
    if (fn == nullptr) std::fprintf(stderr, "keel %s: %s\n", kLogLevelNames[level].data(), text);
  }
  if (fn == nullptr) return;
  const UserCallback callback;
  fn(user, level, text);  // outside the lock: |fn| may log itself
}

void set_log(keel_log_level level, keel_log_fn fn, void* user) {
  std::lock_guard lock(sink().mutex);
  sink().level.store(level, std::memory_order_relaxed);
  sink().fn = fn;
  sink().user = user;
}

}  // namespace keel
