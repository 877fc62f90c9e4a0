// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/address_space.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

#include "backends/cpu/runtime/huge_pages.h"

namespace keel::cpu {
namespace {

constexpr uint64_t kPage = 4096;

char* reserve(uint64_t size) {
  void* address =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
}

// Maps |fd| at a multiple of kHugePage. Returns NULL and keeps the kernel's errno on failure.
char* map_aligned(int fd, uint64_t size) {
  char* const room = reserve(size + kHugePage);
  if (room == nullptr) return nullptr;
  const uint64_t head = -reinterpret_cast<uintptr_t>(room) % kHugePage;
  void* const address =
      mmap(room + head, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  const int error = errno;
  if (address == MAP_FAILED) {
    munmap(room, size + kHugePage);
    errno = error;
    return nullptr;
  }
  if (head != 0) munmap(room, head);
  munmap(room + head + size, kHugePage - head);
  return room + head;
}

// Reserved once per process, so that all devices of all instances use the same addresses.
char* guard_window() {
  static char* const window = reserve(AddressSpace::kWindowBytes);
  return window;
}

}  // namespace

AddressSpace::AddressSpace(bool guarded) : ranges_(guarded ? kWindowBytes : 0) {
  if (!guarded) return;
  window_ = guard_window();
  alias_ = reserve(kWindowBytes);
  if (window_ == nullptr || alias_ == nullptr) throw std::bad_alloc();
  window_bytes_ = kWindowBytes;
}

AddressSpace::~AddressSpace() {
  if (alias_ != nullptr) munmap(alias_, kWindowBytes);
}

std::optional<Mapping> AddressSpace::map(int fd, uint64_t size) {
  if (!guarded()) {
    char* const address = map_aligned(fd, size);
    if (address == nullptr) return std::nullopt;
    return Mapping{address, address, size};
  }
  const std::lock_guard lock(mutex_);
  const std::optional<uint64_t> offset = ranges_.allocate(size, kPage);
  if (!offset) return std::nullopt;
  void* address =
      mmap(alias_ + *offset, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (address == MAP_FAILED) {
    ranges_.release(*offset);
    return std::nullopt;
  }
  return Mapping{window_ + *offset, static_cast<char*>(address), size};
}

void AddressSpace::unmap(const Mapping& mapping) {
  if (!guarded()) {
    munmap(mapping.host, mapping.size);
    return;
  }
  const std::lock_guard lock(mutex_);
  // Keeps the range reserved: no other mapping of the process may take the addresses.
  const void* const place = mmap(mapping.host, mapping.size, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (place == MAP_FAILED) return;  // still mapped, so not to be handed out again
  ranges_.release(static_cast<uint64_t>(mapping.host - alias_));
}

}  // namespace keel::cpu
