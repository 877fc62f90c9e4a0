// SPDX-License-Identifier: Apache-2.0
// The emulated chip's kernel execution: blocks run one at a time, the threads of a block as fibers
// of the calling thread.
#ifndef KEEL_EMULATOR_SIMT_MACHINE_H_
#define KEEL_EMULATOR_SIMT_MACHINE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "emulator/simt/fiber.h"
#include "emulator/simt/kernel.h"
#include "kernels/gpu/arguments.h"

namespace keel::emulator::simt {

inline constexpr uint32_t kWarpThreads = keel::simt::kWarp;

// The list of kernels of this program or library, unordered.
class Registration {
 public:
  explicit Registration(Kernel* kernel) {
    kernel->next = first_;
    first_ = kernel;
  }
  // Returns NULL if there is no such kernel.
  static const Kernel* find(const char* family, const char* name);

 private:
  static inline constinit const Kernel* first_ = nullptr;
};

// A launch. A fiber runs threads of the block in turn; when a thread waits, a further fiber runs
// the threads not yet begun, so a kernel without barriers needs a single fiber. Used by one host
// thread.
class Machine {
 public:
  Machine(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory)
      : kernel_(kernel), grid_(grid), arguments_(arguments), memory_(memory) {}

  // Runs all blocks, up to the first failure; |*out_error| then describes the failure, with its
  // block and thread.
  Outcome run(std::string* out_error);

  // ---- for the running thread, see the target's simt_target.h ----------------------
  // Returns the machine that runs on this host thread.
  static Machine& current() { return *current_; }
  uint32_t thread() const { return thread_; }
  Grid block() const { return block_; }
  const Grid& grid() const { return grid_; }
  // Returns the epoch, which each barrier and each new block of the launch increments: accesses of
  // two threads in one epoch are unordered.
  uint64_t epoch() const { return epoch_; }
  uint64_t first_epoch() const { return first_epoch_; }  // of the block

  void barrier();
  // Returns the values passed by all threads of the warp, by lane.
  const std::array<uint64_t, kWarpThreads>& exchange(uint64_t value);
  // Returns the extent that contains the whole range; fails the launch if no extent does.
  Extent reach(uint64_t address, uint64_t size, uint64_t alignment);
  // Ends the launch; the calling thread does not continue.
  [[noreturn, gnu::format(printf, 3, 4)]] void fail(Outcome outcome, const char* format, ...);

 private:
  struct Worker {
    Machine* machine;
    std::unique_ptr<Fiber> fiber;
    uint32_t thread = 0;
  };
  struct Warp {
    std::array<std::array<uint64_t, kWarpThreads>, 2> given;
    uint32_t turn = 0;
    std::vector<Worker*> waiting;
  };

  static void work(void* user);
  bool run_block();
  Worker* take_idle();
  void wait();

  const Kernel& kernel_;
  const Grid grid_;
  const void* const arguments_;
  AddressSpace& memory_;

  static thread_local Machine* current_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  std::deque<Worker*> ready_;
  std::vector<Worker*> at_barrier_;
  std::vector<Warp> warps_;
  Worker* running_ = nullptr;
  uint32_t thread_ = 0;
  uint32_t next_thread_ = 0;  // the first not begun
  uint32_t finished_ = 0;
  Grid block_ = {};
  uint64_t epoch_ = 0;
  uint64_t first_epoch_ = 0;

  std::array<Extent, 8> extents_ = {};
  uint32_t next_extent_ = 0;

  Outcome outcome_ = Outcome::kDone;
  std::array<char, 512> text_ = {};
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_MACHINE_H_
