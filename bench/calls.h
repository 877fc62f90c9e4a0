// SPDX-License-Identifier: Apache-2.0
// The calls whose cost core_overhead takes apart: each through keel.h, and as the plugin's
// function alone, on the backend `null`, which does nothing.
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

// An instance of `null` and what the calls need. Throws when it cannot be loaded. Keel is
// up, and stays up as long as it lives.
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

// The file of the backend `null` or `fake`, which are built with the tests; empty where they are
// not.
std::string find_test_plugin(const std::string& name);
inline constexpr char kNoTestPlugins[] = "the backends null and fake are built with the tests only";
// An instance of `null`.
Device load_null();

// keel_bench --repeat: what a process of its own is measured with. |what| is "CALL/keel" or
// "CALL/plugin", called |count| times; "first_operation": Keel and the CPU plugin up, an
// addition, and down; "nothing". False where it is none of these.
bool repeat_call(const std::string& what, uint64_t count);

}  // namespace keel::bench

#endif  // KEEL_BENCH_CALLS_H_
