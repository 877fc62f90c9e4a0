// SPDX-License-Identifier: Apache-2.0
// Transfers observations of a device from the worker to the runner, which judges the case.
//
// The body of a case runs in two processes, with the same inputs. In the worker the body uses the
// device and sends each result that it reads from the device (a status, bytes read back, a time) as
// an observation. The runner has no device and no plugin: calls do nothing there, and the worker's
// observations replace their results. A case passes when its checks hold in the runner.
//
// A case body must therefore obtain every value that decides its control flow or a check through
// the functions below, or through the functions of harness.h that use them. Only the case's own
// thread may make observations.
#ifndef KEEL_CONFORMANCE_OBSERVATION_H_
#define KEEL_CONFORMANCE_OBSERVATION_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace keel::conformance {

// The source line of an observation or a check. Equivalent to std::source_location, which
// clang-tidy 14 does not find in the standard library of GCC 12.
class Where {
 public:
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file_name() const { return file_; }
  uint32_t line() const { return line_; }
  // Returns for example "suite_core.cc:117".
  std::string text() const;

 private:
  constexpr Where(const char* file, uint32_t line) : file_(file), line_(line) {}
  const char* file_;
  uint32_t line_;
};

enum class ObservationKind : uint32_t {
  kStatus,  // result of a call
  kText,    // the message of a status, or a name
  kValue,   // an address, a count, a yes or no
  kTime,    // nanoseconds of the worker's clock
  kBytes,   // read back from the device
};
inline constexpr size_t kObservationKinds = 5;

// One side of the transfer. Not thread-safe.
class Observer {
 public:
  virtual ~Observer() = default;
  // Returns whether this is the runner's side.
  virtual bool is_judge() const = 0;
  // The worker's side sends |bytes|. The runner's side overwrites |bytes| with the worker's
  // observation of the same size, and ends the case if the worker sent a different observation or
  // no more.
  virtual void cross(ObservationKind kind, std::span<std::byte> bytes, const Where& where) = 0;
};

// Installs |observer| for the calling thread during the scope's lifetime. On a thread without an
// observer, such as a thread started by a case, observing a value returns the value unchanged.
class ObserverScope {
 public:
  explicit ObserverScope(Observer* observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
};

// Returns whether the calling thread's case runs without a device, in the runner.
bool judging();
// Returns whether the calling thread's case runs in a worker, which may leave expensive judging to
// the runner.
bool judged_elsewhere();

void observe_bytes(std::span<std::byte> bytes, Where where = Where::current());
keel_status observe_status(keel_status status, Where where = Where::current());
std::string observe_text(std::string text, Where where = Where::current());
// Returns the current time of the steady clock in nanoseconds.
int64_t observe_now(Where where = Where::current());
// Observes a number, an address converted to a number, or a yes or no.
void observe_value(std::span<std::byte> value, const Where& where);
template <typename T>
T observe(T value, Where where = Where::current()) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  observe_value(std::as_writable_bytes(std::span(&value, 1)), where);
  return value;
}

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_OBSERVATION_H_
