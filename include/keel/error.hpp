// SPDX-License-Identifier: Apache-2.0
// Failures as exceptions, and owners of handles. Included by keel.hpp, which states the rules for
// all of its parts.
#ifndef KEEL_ERROR_HPP_
#define KEEL_ERROR_HPP_

#include <keel/keel.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace keel {
// The version in the symbols separates them from another version's symbols in one process, and from
// libkeel's own classes.
inline namespace v0 {

class Error : public std::runtime_error {
 public:
  Error(keel_status status, const std::string& text)
      : std::runtime_error(std::string(keel_status_name(status)) + ": " + text), status_(status) {}

  keel_status status() const noexcept { return status_; }

 private:
  keel_status status_;
};

// Throws the calling thread's last failure unless |status| is KEEL_OK.
inline void check(keel_status status) {
  if (status != KEEL_OK) throw Error(status, keel_last_error());
}

namespace api_detail {

// Result of a query: true when done, false when not yet; throws a failure.
inline bool is_ready(keel_status status) {
  if (status == KEEL_NOT_READY) return false;
  check(status);
  return true;
}

// Text that |read| returns by the rule of keel.h: room in, size out.
template <typename Read>
std::string read_text(Read&& read) {
  std::string text(512, '\0');
  while (true) {
    uint64_t size = text.size();
    const keel_status status = read(text.data(), &size);
    if (status != KEEL_OUT_OF_RANGE || size <= text.size()) check(status);
    const bool complete = status == KEEL_OK;
    text.resize(complete ? size - 1 : size);  // |size| counts the terminator
    if (complete) return text;
  }
}

// Owns one handle of keel.h.
template <typename Handle, keel_status (*kDestroy)(Handle)>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~UniqueHandle() {
    if (handle_.id != 0) (void)kDestroy(handle_);
  }

  Handle get() const { return handle_; }

 private:
  Handle handle_{};
};

}  // namespace api_detail

// Deadlines are durations from now; kDefaultTimeout stands for the process's default.
inline constexpr std::chrono::nanoseconds kDefaultTimeout{KEEL_TIMEOUT_DEFAULT};

}  // namespace v0
}  // namespace keel

#endif  // KEEL_ERROR_HPP_
