// SPDX-License-Identifier: Apache-2.0
// How what a case learns of a device crosses from the worker to the runner, who judges.
//
// The body of a case runs in two processes, with the same inputs. In the worker it has the device,
// and each thing that it learns of it (a status, bytes read back, a time) is sent as an
// observation. The runner has no device and no plugin: there calls do nothing, and what the worker
// sent takes the place of what they would have given. A case passes when its checks hold there.
//
// So a body is written such that whatever decides its course or a check has come through one of the
// functions below, or through those of harness.h that use them; and no observation is made on
// another thread than the case's.
#ifndef KEEL_CONFORMANCE_OBSERVATION_H_
#define KEEL_CONFORMANCE_OBSERVATION_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace keel::conformance {

// The line of a suite that an observation or a check stands in. What std::source_location does;
// clang-tidy 14, with the standard library of GCC 12, does not see that.
class Where {
 public:
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file_name() const { return file_; }
  uint32_t line() const { return line_; }
  // "suite_core.cc:117"
  std::string text() const;

 private:
  constexpr Where(const char* file, uint32_t line) : file_(file), line_(line) {}
  const char* file_;
  uint32_t line_;
};

enum class ObservationKind : uint32_t {
  kStatus,  // of a call
  kText,    // what came with a status, or a name
  kValue,   // an address, a count, a yes or no
  kTime,    // nanoseconds of the worker's clock
  kBytes,   // read back from the device
};
inline constexpr size_t kObservationKinds = 5;

// One side of the crossing. For one thread.
class Observer {
 public:
  virtual ~Observer() = default;
  // Whether this is the runner's side.
  virtual bool is_judge() const = 0;
  // The worker's side sends |bytes|; the runner's overwrites them with as many that were sent. It
  // ends the case where the worker has sent something else, or nothing more.
  virtual void cross(ObservationKind kind, std::span<std::byte> bytes, const Where& where) = 0;
};

// Makes |observer| the calling thread's while it lives. Without one, as on threads of a case's own,
// observations stay what they are.
class ObserverScope {
 public:
  explicit ObserverScope(Observer* observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
};

// Whether the calling thread's case runs without a device, in the runner.
bool judging();
// Whether it runs in a worker, so that what is expensive to judge may be left to the runner.
bool judged_elsewhere();

void observe_bytes(std::span<std::byte> bytes, Where where = Where::current());
keel_status observe_status(keel_status status, Where where = Where::current());
std::string observe_text(std::string text, Where where = Where::current());
// Nanoseconds of the steady clock, now.
int64_t observe_now(Where where = Where::current());
// A number, an address as one, a yes or no.
void observe_value(std::span<std::byte> value, const Where& where);
template <typename T>
T observe(T value, Where where = Where::current()) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  observe_value(std::as_writable_bytes(std::span(&value, 1)), where);
  return value;
}

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_OBSERVATION_H_
