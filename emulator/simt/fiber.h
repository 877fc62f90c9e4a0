// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SIMT_FIBER_H_
#define KEEL_EMULATOR_SIMT_FIBER_H_

#include <cstddef>
#include <memory>

namespace keel::emulator::simt {

// A stack on which |body| runs in steps, on the thread that calls resume(). If a fiber is destroyed
// before its body ends, objects on its stack are abandoned without destructors.
class Fiber {
 public:
  using Body = void (*)(void* user);

  // Returns NULL if memory for the stack runs out. |body| must never return.
  static std::unique_ptr<Fiber> create(Body body, void* user);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it calls suspend(). Always called by the same thread.
  void resume();
  // Called by the body: returns to the caller of resume().
  void suspend();

 private:
  struct Machinery;
  explicit Fiber(std::unique_ptr<Machinery> machinery);
  std::unique_ptr<Machinery> machinery_;
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_FIBER_H_
