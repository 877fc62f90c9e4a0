// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SIMT_FIBER_H_
#define KEEL_EMULATOR_SIMT_FIBER_H_

#include <cstddef>
#include <memory>

namespace keel::emulator::simt {

// A stack of its own on which |body| runs, step by step, on the thread that resumes it. What is on
// the stack of one that is destroyed before its body ends is forgotten, not destroyed.
class Fiber {
 public:
  using Body = void (*)(void* user);

  // NULL where there is no memory. |body| never returns.
  static std::unique_ptr<Fiber> create(Body body, void* user);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends itself. Always from the same thread.
  void resume();
  // From inside the body: back to who resumed it.
  void suspend();

 private:
  struct Machinery;
  explicit Fiber(std::unique_ptr<Machinery> machinery);
  std::unique_ptr<Machinery> machinery_;
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_FIBER_H_
