// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/caller_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "collectives/bootstrap/message_codec.h"
#include "core/api.h"
#include "core/insiders.h"

namespace keel {

namespace {

// Longest wait within the store: a rank then looks whether the others are still there.
constexpr int64_t kSliceNs = 200'000'000;
constexpr size_t kMostPrefix = 128;

Status store_failure(const char* function, const std::string& key, keel_status code) {
  if (!is_status(code)) {
    return failure(KEEL_INTERNAL, "the store's {} of '{}' returned {}, which is no status",
                   function, key, code);
  }
  return failure(code, "the store's {} of '{}' returned {}", function, key, status_name(code));
}

}  // namespace

Status CallerStore::check(const keel_store* given) {
  KEEL_RETURN_IF_ERROR(check_struct(given, KEEL_STRUCT_STORE, sizeof(keel_store), "store"));
  if (given->set == nullptr || given->get == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "store.{} is NULL",
                   given->set == nullptr ? "set" : "get");
  }
  if (given->prefix == nullptr) return {};
  const std::string_view prefix(given->prefix, strnlen(given->prefix, kMostPrefix + 1));
  if (prefix.size() > kMostPrefix || !is_printable(prefix)) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "store.prefix has more than {} bytes, or control characters", kMostPrefix);
  }
  return {};
}

CallerStore::CallerStore(const keel_store& given)
    : prefix_(given.prefix == nullptr ? "" : given.prefix), store_(given) {
  store_.prefix = nullptr;  // the caller's text need not last
}

Status CallerStore::set(const std::string& name, ByteView value, const Deadline& deadline) const {
  const std::string full = key(name);
  const keel_status code =
      store_.set(store_.user, full.c_str(), value.data(), value.size(), deadline.remaining_ns());
  return code == KEEL_OK ? Status() : store_failure("set", full, code);
}

Status CallerStore::ask(const std::string& key, uint64_t most, int64_t timeout_ns,
                        Bytes* out_value) const {
  Bytes value(most);
  uint64_t size = most;
  const keel_status code = store_.get(store_.user, key.c_str(), value.data(), &size, timeout_ns);
  if (code == KEEL_TIMED_OUT || code == KEEL_NOT_FOUND || code == KEEL_NOT_READY) {
    return Status::not_ready();
  }
  if (code == KEEL_OUT_OF_RANGE || (code == KEEL_OK && size > most)) {
    return failure(KEEL_DATA_LOSS, "the store's value of '{}' has {} bytes; ranks write up to {}",
                   key, size, most);
  }
  if (code != KEEL_OK) return store_failure("get", key, code);
  value.resize(size);
  *out_value = std::move(value);
  return {};
}

Status CallerStore::get(const std::string& name, uint64_t most, const Deadline& deadline,
                        const std::function<Status()>& look, Bytes* out_value) const {
  constexpr std::chrono::milliseconds kLongestPause(20);
  const std::string full = key(name);
  std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
  while (true) {
    const Status asked = ask(full, most, std::min(kSliceNs, deadline.remaining_ns()), out_value);
    if (asked.code() != KEEL_NOT_READY) return asked;
    KEEL_RETURN_IF_ERROR(look());
    if (deadline.is_cut_off()) return insiders::cut_off();
    if (deadline.passed()) {
      return failure(KEEL_TIMED_OUT, "the store has no '{}' in time", full);
    }
    // A store that cannot wait must not keep a core busy.
    std::this_thread::sleep_for(
        std::min<std::chrono::nanoseconds>(pause, std::chrono::nanoseconds(deadline.slice_ns())));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestPause);
  }
}

Status CallerStore::look_up(const std::string& name, uint64_t most, Bytes* out_value) const {
  const std::string full = key(name);
  const Status asked = ask(full, most, 0, out_value);
  if (asked.code() != KEEL_NOT_READY) return asked;
  return failure(KEEL_TIMED_OUT, "the store has no '{}'", full);
}

}  // namespace keel
