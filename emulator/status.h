// SPDX-License-Identifier: Apache-2.0
// The result of a call on the emulated chip, or of work on one of its streams.
#ifndef KEEL_EMULATOR_STATUS_H_
#define KEEL_EMULATOR_STATUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace keel::emulator {

enum class Code : uint8_t {
  kOk,
  kInvalidArgument,
  kOutOfMemory,
  kNotReady,        // the queried work is pending; not a failure
  kTimedOut,        // the deadline of a wait passed; the awaited work continues
  kIllegalAddress,  // work accessed memory that does not exist
  kFailed,          // work failed: an injected fault, a kernel's error, a malformed result
  kUnavailable,     // refused for now by an injected fault, or a peer or communicator is gone
  kUnsupported,
  kCancelled,   // the stream was destroyed or the communicator aborted before the work ran
  kDeviceLost,  // sticky
};

// Copying a Status never fails and never allocates: streams and events store a Status, and
// functions that must not throw return copies.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Code code) : code_(code) {}
  Status(Code code, std::string text)
      : code_(code), text_(std::make_shared<const std::string>(std::move(text))) {}
  static Status not_ready() { return Status(Code::kNotReady); }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const {
    static const std::string none;
    return text_ == nullptr ? none : *text_;
  }

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> text_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_STATUS_H_
