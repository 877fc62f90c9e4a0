// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "backends/cpu/runtime/fork_memory.h"
#include "backends/cpu/runtime/huge_pages.h"

namespace keel::cpu {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Rounds |size| to the charged size: whole cache lines, or whole pages from one page on.
uint64_t charged(uint64_t size) {
  return round_up(size, size < kPage ? ArenaPool::kAlignment : kPage);
}

uint64_t alignment_of(uint64_t bytes) {
  if (bytes < kPage) return ArenaPool::kAlignment;
  return bytes < kHugePage ? kPage : kHugePage;
}

}  // namespace

std::unique_ptr<Arena> Arena::create(AddressSpace& space, uint64_t size) {
  // Beyond this process's file size limit, ftruncate raises a signal that kills the process.
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
    errno = EFBIG;
    return nullptr;
  }
  const int fd = memfd_create("keel-cpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, static_cast<off_t>(size)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    if (const std::optional<Mapping> mapping = space.map(fd, size)) {
      if (add_fork_mapping(mapping->host, size, fd)) {
        return std::unique_ptr<Arena>(new Arena(space, fd, *mapping));
      }
      space.unmap(*mapping);
      errno = ENOMEM;
    }
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return nullptr;
}

Arena::~Arena() {
  remove_fork_mapping(mapping_.host);
  space_.unmap(mapping_);
  ::close(fd_);
}

bool MemoryBudget::take(uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (size > limit_ - used_) return false;
  used_ += size;
  return true;
}

void MemoryBudget::give(uint64_t size) {
  const std::lock_guard lock(mutex_);
  used_ -= size;
}

uint64_t MemoryBudget::left() const {
  const std::lock_guard lock(mutex_);
  return limit_ - used_;
}

void* ArenaPool::allocate(uint64_t size) {
  // Checked before rounding, which could overflow.
  errno = 0;
  if (size > budget_.limit()) return nullptr;
  const uint64_t bytes = charged(size);
  if (!budget_.take(bytes)) return nullptr;
  const std::optional<Mapping> block = place(bytes, alignment_of(bytes));
  if (!block) {
    budget_.give(bytes);
    return nullptr;
  }
  // Takes some 0.1 ms per MiB, without the lock: other threads may allocate meanwhile, and the
  // block keeps its arena alive.
  const bool is_aligned = reinterpret_cast<uintptr_t>(block->host) % kHugePage == 0;  // not guarded
  if (is_aligned) commit_huge_pages(block->host, bytes);
  return block->device;
}

std::optional<Mapping> ArenaPool::place(uint64_t bytes, uint64_t alignment) {
  const auto block_at = [&](const Arena& arena, uint64_t offset) {
    return Mapping{arena.mapping().device + offset, arena.mapping().host + offset, bytes};
  };
  const std::lock_guard lock(mutex_);
  for (auto& [address, arena] : arenas_) {
    if (const auto offset = arena->ranges().allocate(bytes, alignment)) {
      return block_at(*arena, *offset);
    }
  }
  std::unique_ptr<Arena> arena =
      Arena::create(space_, std::max(kArenaBytes, round_up(bytes, kPage)));
  if (arena == nullptr) return std::nullopt;
  const Mapping block = block_at(*arena, *arena->ranges().allocate(bytes, alignment));
  arenas_.emplace(reinterpret_cast<uintptr_t>(arena->mapping().device), std::move(arena));
  return block;
}

bool ArenaPool::release(void* pointer) {
  const std::lock_guard lock(mutex_);
  Arena* const arena = find(reinterpret_cast<uintptr_t>(pointer));
  if (arena == nullptr) return false;
  const uint64_t offset =
      static_cast<uint64_t>(static_cast<char*>(pointer) - arena->mapping().device);
  const uint64_t bytes = arena->ranges().release(offset);
  if (bytes == 0) return false;
  budget_.give(bytes);
  // The last arena of standard size stays, so that a program that allocates and frees one buffer in
  // a loop does not map the arena and fault its pages each time.
  const bool keep = arenas_.size() == 1 && arena->mapping().size == kArenaBytes;
  if (arena->ranges().empty() && !keep) {
    arenas_.erase(reinterpret_cast<uintptr_t>(arena->mapping().device));
  }
  return true;
}

bool ArenaPool::locate(const void* pointer, uint64_t size, Location* out_location) {
  const std::lock_guard lock(mutex_);
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  Arena* const arena = find(address);
  if (arena == nullptr) return false;
  const uint64_t offset = address - reinterpret_cast<uintptr_t>(arena->mapping().device);
  if (size > arena->mapping().size - offset) return false;
  *out_location = {arena->fd(), offset, arena->mapping().size};
  return true;
}

Arena* ArenaPool::find(uintptr_t address) {
  auto after = arenas_.upper_bound(address);
  if (after == arenas_.begin()) return nullptr;
  Arena* const arena = std::prev(after)->second.get();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(arena->mapping().device);
  return address - begin < arena->mapping().size ? arena : nullptr;
}

}  // namespace keel::cpu
