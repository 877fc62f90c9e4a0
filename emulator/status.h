// What a call on the emulated chip, or work on one of its streams, came to.
#ifndef KEEL_EMULATOR_STATUS_H_
#define KEEL_EMULATOR_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>

namespace keel::emulator {

enum class Code : uint8_t {
  kOk,
  kInvalidArgument,
  kOutOfMemory,
  kNotReady,        // answer of a query, not a failure
  kTimedOut,        // the deadline of a wait passed; what was waited for goes on
  kIllegalAddress,  // work reached for memory that is not there
  kFailed,          // work failed, as a fault had it
  kUnavailable,     // refused for now, as a fault had it, or because a peer is lost
  kUnsupported,
  kCancelled,   // the stream was destroyed before the work ran
  kDeviceLost,  // sticky
};

// Free to copy while it is a success: no text, no allocation.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  static Status not_ready() { return {Code::kNotReady, {}}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_STATUS_H_
