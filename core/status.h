// The result of everything inside Keel: a code and, for a failure, a sentence.
#ifndef KEEL_CORE_STATUS_H_
#define KEEL_CORE_STATUS_H_

#include <fmt/format.h>
#include <keel/keel.h>

#include <memory>
#include <string>
#include <utility>

namespace keel {

// KEEL_OK carries no text and costs nothing to return; a failure allocates one
// shared string. Cheap to copy and to move.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(keel_status code, std::string text)
      : code_(code), text_(std::make_shared<const std::string>(std::move(text))) {}

  // A query's "not yet", which is no failure and has no text.
  static Status not_ready() {
    Status status;
    status.code_ = KEEL_NOT_READY;
    return status;
  }

  bool ok() const { return code_ == KEEL_OK; }
  // Neither success nor "not yet".
  bool failed() const { return code_ != KEEL_OK && code_ != KEEL_NOT_READY; }
  keel_status code() const { return code_; }
  const char* text() const { return text_ ? text_->c_str() : ""; }

  // The same failure with |prefix| in front of its text.
  Status with_prefix(const std::string& prefix) const {
    return ok() ? *this : Status(code_, prefix + text());
  }

 private:
  keel_status code_ = KEEL_OK;
  std::shared_ptr<const std::string> text_;
};

template <typename... Arguments>
Status failure(keel_status code, fmt::format_string<Arguments...> format,
               Arguments&&... arguments) {
  return Status(code, fmt::format(format, std::forward<Arguments>(arguments)...));
}

const char* status_name(keel_status code);

#define KEEL_RETURN_IF_ERROR(expression)         \
  do {                                           \
    ::keel::Status keel_status_ = (expression);  \
    if (!keel_status_.ok()) return keel_status_; \
  } while (false)

// ---- texts of the calling thread ----

// What keel_last_error returns.
void set_last_error(const Status& status);
const char* last_error();

// What a plugin said with host->set_error on this thread and nobody has read yet.
void set_plugin_text(const char* text);
std::string take_plugin_text();

}  // namespace keel

#endif  // KEEL_CORE_STATUS_H_
