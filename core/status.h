// SPDX-License-Identifier: Apache-2.0
// The result of everything inside Keel: a code and, for a failure, a sentence.
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

// One word. KEEL_OK is 0 and "not ready" a constant, so that neither costs anything to
// make, to move or to destroy; a failure points to a text that its copies share.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // KEEL_OK and KEEL_NOT_READY keep no text.
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

  // "out of host memory": made beforehand, so that it can be told then.
  static Status no_memory() {
    Status status;
    status.word_ = reinterpret_cast<uintptr_t>(no_memory_);
    status.retain();
    return status;
  }
  // The same with the text of |error|, where that says more: which thread the system refused, and
  // by which limits.
  static Status no_memory(const std::bad_alloc& error);
  // A query's "not yet", which is no failure and has no text.
  static Status not_ready() {
    Status status;
    status.word_ = kNotReady;
    return status;
  }

  bool ok() const { return word_ == 0; }
  // Neither success nor "not yet".
  bool failed() const { return has_text(); }
  keel_status code() const {
    if (has_text()) [[unlikely]] {
      return shared().code;
    }
    return word_ == 0 ? KEEL_OK : KEEL_NOT_READY;
  }
  const char* text() const { return has_text() ? shared().text.c_str() : ""; }

  // The same failure with |prefix| in front of its text.
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

  uintptr_t word_ = 0;  // 0, kNotReady, or the Failure
};

template <typename... Arguments>
Status failure(keel_status code, fmt::format_string<Arguments...> format,
               Arguments&&... arguments) {
  return Status(code, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// "KEEL_UNKNOWN" for a number that is none.
const char* status_name(keel_status code);
bool is_status(keel_status code);

#define KEEL_RETURN_IF_ERROR(expression)         \
  do {                                           \
    ::keel::Status keel_status_ = (expression);  \
    if (!keel_status_.ok()) return keel_status_; \
  } while (false)

// ---- texts of the calling thread ----

// What keel_last_error returns. Allocates nothing.
void set_last_error(const char* text);
const char* last_error();

// What a plugin said with host->set_error on this thread and nobody has read yet.
void set_plugin_text(const char* text);
std::string take_plugin_text();

}  // namespace keel

#endif  // KEEL_CORE_STATUS_H_
