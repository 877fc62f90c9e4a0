// SPDX-License-Identifier: Apache-2.0
#include "core/testing/host_memory.h"

#include <cstdlib>
#include <new>

namespace keel::testing {

constinit thread_local uint64_t t_allocations = 0;
constinit thread_local int t_until_failure = -1;

}  // namespace keel::testing

// Not inlined: g++ 12 would warn of malloc and delete in one function.
[[gnu::noinline]] void* operator new(std::size_t size) {
  using namespace keel::testing;
  ++t_allocations;
  if (t_until_failure >= 0 && t_until_failure-- == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
