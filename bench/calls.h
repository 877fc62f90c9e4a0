// SPDX-License-Identifier: Apache-2.0
// The calls whose overhead core_overhead measures: each call through keel.h, and as the bare plugin
// function, on the backend `null` of empty functions.
#ifndef KEEL_BENCH_CALLS_H_
#define KEEL_BENCH_CALLS_H_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <memory>
#include <string>
#include <vector>

namespace keel::bench {

struct Call {
  std::string name;      // "record"
  std::string function;  // "keel_event_record"
  std::function<void()> keel;
  std::function<void()> plugin;
};

// Owns an instance of `null` and the calls' objects. The constructor throws if `null` cannot be
// loaded. Keel must be initialized before and until the object is destroyed.
class Calls {
 public:
  Calls();
  ~Calls();
  const std::vector<Call>& all() const { return calls_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<Call> calls_;
};

// Returns the file of the backend `null` or `fake`; empty in builds without tests, where these
// backends are not built.
std::string find_test_plugin(const std::string& name);
inline constexpr char kNoTestPlugins[] = "the backends null and fake are built with the tests only";
// Returns a device of a `null` instance.
Device load_null();

// Body of keel_bench --repeat, run in a separate process for measurement. |what| is "CALL/keel" or
// "CALL/plugin" (called |count| times), "first_operation" (initialize Keel with the CPU plugin, run
// one addition, shut down) or "nothing". Returns false for an unknown |what|.
bool repeat_call(const std::string& what, uint64_t count);

}  // namespace keel::bench

#endif  // KEEL_BENCH_CALLS_H_
