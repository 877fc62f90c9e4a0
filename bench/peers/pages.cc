// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/pages.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace keel::bench::peers {

Pages::Pages(uint64_t bytes)
    : data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      bytes_(bytes) {
  if (data_ == MAP_FAILED) throw std::bad_alloc();
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, MAP_FAILED)), bytes_(other.bytes_) {}

Pages::~Pages() {
  if (data_ != MAP_FAILED) munmap(data_, bytes_);
}

}  // namespace keel::bench::peers
