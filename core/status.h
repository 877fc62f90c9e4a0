// SPDX-License-Identifier: Apache-2.0
// The result type inside Keel: a code and, for a failure, a sentence.
#ifndef KEEL_CORE_STATUS_H_
#define KEEL_CORE_STATUS_H_

#include <fmt/format.h>
#include <keel/keel.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

namespace keel {

// One word. KEEL_OK is 0 and KEEL_NOT_READY a constant, so that both are free to make, move and
// destroy; a failure points to a text shared by its copies.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // KEEL_OK and KEEL_NOT_READY store no text.
  Status(keel_status code, std::string text);
  Status(const Status& other) : word_(other.word_) { retain(); }
  Status(Status&& other) noexcept : word_(std::exchange(other.word_, 0)) {}
  Status& operator=(Status other) noexcept {
    std::swap(word_, other.word_);
    return *this;
  }
  ~Status() {
    if (has_text()) [[unlikely]] {
      release();
    }
  }

  // "out of host memory", allocated beforehand for the time when memory has run out.
  static Status no_memory() {
    Status status;
    status.word_ = reinterpret_cast<uintptr_t>(no_memory_);
    status.retain();
    return status;
  }
  // no_memory() with the text of |error| if more precise: the thread that the system refused, and
  // the limits.
  static Status no_memory(const std::bad_alloc& error);
  // A query's "not ready": no failure, no text.
  static Status not_ready() {
    Status status;
    status.word_ = kNotReady;
    return status;
  }

  bool ok() const { return word_ == 0; }
  // True for failures, false for KEEL_OK and KEEL_NOT_READY.
  bool failed() const { return has_text(); }
  keel_status code() const {
    if (has_text()) [[unlikely]] {
      return shared().code;
    }
    return word_ == 0 ? KEEL_OK : KEEL_NOT_READY;
  }
  const char* text() const { return has_text() ? shared().text.c_str() : ""; }

  // Returns the failure with |prefix| in front of its text.
  Status with_prefix(const std::string& prefix) const {
    return ok() ? *this : Status(code(), prefix + text());
  }

 private:
  struct Failure {
    std::atomic<uint32_t> references;
    keel_status code;
    std::string text;
  };
  static constexpr uintptr_t kNotReady = 1;
  static Failure* const no_memory_;

  bool has_text() const { return word_ > kNotReady; }
  Failure& shared() const { return *reinterpret_cast<Failure*>(word_); }
  void retain() const {
    if (has_text()) [[unlikely]] {
      shared().references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[gnu::cold]] void release() noexcept;

  uintptr_t word_ = 0;  // 0, kNotReady, or a pointer to the Failure
};

template <typename... Arguments>
Status failure(keel_status code, fmt::format_string<Arguments...> format,
               Arguments&&... arguments) {
  return Status(code, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Returns "KEEL_UNKNOWN" for an undefined number.
const char* status_name(keel_status code);
bool is_status(keel_status code);

#define KEEL_RETURN_IF_ERROR(expression)         \
  do {                                           \
    ::keel::Status keel_status_ = (expression);  \
    if (!keel_status_.ok()) return keel_status_; \
  } while (false)

// ---- texts of the calling thread ----

// The text for keel_last_error. Allocates nothing.
void set_last_error(const char* text);
const char* last_error();

// The text passed by a plugin to host->set_error on this thread, until take_plugin_text().
void set_plugin_text(const char* text);
std::string take_plugin_text();

}  // namespace keel

#endif  // KEEL_CORE_STATUS_H_
