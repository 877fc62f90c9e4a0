// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define KEEL_ADDRESS_SANITIZER
#elif defined(__SANITIZE_THREAD__)
#define KEEL_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEL_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer)
#define KEEL_THREAD_SANITIZER
#endif
#endif
#ifdef KEEL_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KEEL_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace keel::emulator::simt {
namespace {

// Only used pages are backed. Frames of kernels take some hundred bytes, with the address sanitizer
// some thousand.
constexpr size_t kStackBytes = 256 << 10;

// A pool of unused stacks for later launches: otherwise system calls, one per stack, would dominate
// a launch of a thousand threads. Never destroyed. Thread-safe.
class StackPool {
 public:
  static StackPool& get() {
    static StackPool& pool = *new StackPool;
    return pool;
  }
  // Returns the lowest address of a stack; NULL if memory runs out. A guard page below the stack
  // faults.
  std::byte* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::byte* const stack = free_.back();
        free_.pop_back();
        return stack;
      }
    }
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const mapped = mmap(nullptr, page + kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    (void)mprotect(mapped, page, PROT_NONE);
    return static_cast<std::byte*>(mapped) + page;
  }
  void give_back(std::byte* stack) {
#ifdef KEEL_ADDRESS_SANITIZER
    // Abandoned frames have left red zones.
    __asan_unpoison_memory_region(stack, kStackBytes);
#endif
    const std::lock_guard lock(mutex_);
    free_.push_back(stack);
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

}  // namespace

// Pushes the callee-saved registers, stores the stack pointer in |*out_from|, and resumes the stack
// |to|. ucontext needs two system calls for the signal mask as well, ten times as long.
#if defined(__x86_64__)
extern "C" void keel_simt_switch(void** out_from, void* to);
asm(R"(
  .pushsection .text
  .p2align 4
  .hidden keel_simt_switch
  .globl keel_simt_switch
  .type keel_simt_switch, @function
keel_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size keel_simt_switch, .-keel_simt_switch
  .popsection
)");

struct Context {
  void* stack = nullptr;

  void prepare(std::byte* lowest, size_t size, void (*entry)()) {
    // From the top: the entry's return address, the entry, six registers.
    auto* top = reinterpret_cast<uintptr_t*>(lowest + size);
    *--top = 0;
    *--top = reinterpret_cast<uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    stack = top;
  }
  void switch_to(Context& other) { keel_simt_switch(&stack, other.stack); }
};
#else
struct Context {
  ucontext_t native = {};

  void prepare(std::byte* lowest, size_t size, void (*entry)()) {
    getcontext(&native);
    native.uc_stack.ss_sp = lowest;
    native.uc_stack.ss_size = size;
    native.uc_link = nullptr;
    makecontext(&native, entry, 0);
  }
  void switch_to(Context& other) { swapcontext(&native, &other.native); }
};
#endif

struct Fiber::Machinery {
  Body body = nullptr;
  void* user = nullptr;
  std::byte* stack = nullptr;
  Context own;
  Context resumer;
#ifdef KEEL_ADDRESS_SANITIZER
  const void* resumer_stack = nullptr;
  size_t resumer_bytes = 0;
  void* own_fake = nullptr;
#endif
#ifdef KEEL_THREAD_SANITIZER
  void* own_fiber = nullptr;
  void* resumer_fiber = nullptr;
#endif

  // The fiber that is starting on this thread.
  static thread_local Machinery* starting;

  static void enter() {
    Machinery& self = *starting;
    self.arrive();
    self.body(self.user);
    __builtin_trap();  // a body never returns
  }
  void arrive() {
#ifdef KEEL_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(own_fake, &resumer_stack, &resumer_bytes);
#endif
  }
};

thread_local Fiber::Machinery* Fiber::Machinery::starting = nullptr;

Fiber::Fiber(std::unique_ptr<Machinery> machinery) : machinery_(std::move(machinery)) {}

std::unique_ptr<Fiber> Fiber::create(Body body, void* user) {
  std::byte* const stack = StackPool::get().take();
  if (stack == nullptr) return nullptr;
  auto machinery = std::make_unique<Machinery>();
  machinery->body = body;
  machinery->user = user;
  machinery->stack = stack;
  machinery->own.prepare(stack, kStackBytes, Machinery::enter);
#ifdef KEEL_THREAD_SANITIZER
  machinery->own_fiber = __tsan_create_fiber(0);
#endif
  return std::unique_ptr<Fiber>(new Fiber(std::move(machinery)));
}

Fiber::~Fiber() {
#ifdef KEEL_THREAD_SANITIZER
  __tsan_destroy_fiber(machinery_->own_fiber);
#endif
  StackPool::get().give_back(machinery_->stack);
}

void Fiber::resume() {
  Machinery& self = *machinery_;
  Machinery::starting = &self;
#ifdef KEEL_ADDRESS_SANITIZER
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, self.stack, kStackBytes);
#endif
#ifdef KEEL_THREAD_SANITIZER
  self.resumer_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(self.own_fiber, 0);
#endif
  self.resumer.switch_to(self.own);
#ifdef KEEL_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  Machinery& self = *machinery_;
#ifdef KEEL_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&self.own_fake, self.resumer_stack, self.resumer_bytes);
#endif
#ifdef KEEL_THREAD_SANITIZER
  __tsan_switch_to_fiber(self.resumer_fiber, 0);
#endif
  self.own.switch_to(self.resumer);
  self.arrive();
}

}  // namespace keel::emulator::simt
