// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FAULTS_H_
#define KEEL_EMULATOR_FAULTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/notifier.h"
#include "emulator/status.h"

namespace keel::emulator {

// The calls that faults count. The first two execute on the calling thread, all later kinds on a
// stream.
enum class CallKind : uint8_t { kAlloc, kStream, kCopy, kFill, kOp, kRecord, kCcl };
inline constexpr size_t kCallKinds = 7;
const char* call_name(CallKind kind);  // "alloc"

// One injected fault: "ACTION[:KIND][@N[+]][=ARGUMENT]", prefixed with "DEVICE/" to restrict the
// fault to one device.
//   lose[:KIND]@N      the device is lost when the Nth call (of the kind) runs
//   refuse:KIND@N      the Nth call returns a failure: kOutOfMemory for alloc, else kUnavailable
//   fail:KIND@N        the Nth call is accepted and fails on its stream; a ccl call hangs there,
//                      and the communicator reports the failure
//   corrupt:KIND@N     one bit of the Nth result is wrong: copy, fill, op, ccl
//   stall:KIND@N[=MS]  the Nth call's queue blocks before the call for MS milliseconds, or
//                      until Device::release_stalls
//   slow[:KIND]=X      work takes X times as long, 1 to 1000; several multiply, up to a
//                      million times
// Each device counts calls from 1, in call order. "@N+" is the Nth and all later calls.
struct Fault {
  enum class Action : uint8_t { kLose, kRefuse, kFail, kCorrupt, kStall, kSlow };
  Action action;
  std::optional<CallKind> kind;
  std::optional<uint32_t> device;
  uint64_t nth = 0;
  bool onward = false;
  double argument = 0;  // 0: none
};

// Parses a comma-separated list. Returns kInvalidArgument, naming the invalid fault.
Status parse_faults(std::string_view text, std::vector<Fault>* out_faults);

// The faults that apply to one call.
struct Injection {
  bool lose = false;
  bool refuse = false;
  bool fail = false;
  bool corrupt = false;
  bool stall = false;
  Duration stall_for{0};  // 0: until released
  double slow = 1;
  CallKind kind = CallKind::kAlloc;
  uint64_t number = 0;  // of its kind, from 1

  // "copy 7"
  std::string call() const;
};

// The faults of one device, with the counts of its calls. Thread-safe.
class FaultPlan {
 public:
  FaultPlan(const std::vector<Fault>& faults, uint32_t device);
  // Counts a call and returns its faults.
  Injection next(CallKind kind);

 private:
  std::vector<Fault> faults_;
  std::array<std::atomic<uint64_t>, kCallKinds> counts_ = {};
  std::atomic<uint64_t> total_{0};
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_FAULTS_H_
