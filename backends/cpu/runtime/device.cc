// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>

namespace keel::cpu {
namespace {

// Size of the pieces of copies and fills: at 10 GB/s, 1 MiB takes 100 us, ten times the cost of
// waking a helper.
constexpr int64_t kCopyPiece = int64_t{1} << 20;

// Nanoseconds in which one core copies or fills |bytes|, of which half are not in its caches.
int64_t duration_of(uint64_t bytes) {
  return static_cast<int64_t>(bytes / 16);
}

// Adds up the numbers in the lines of |path| that |format| reads; 0 if no line matches.
uint64_t sum_of_lines(const char* path, const char* format) {
  FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  uint64_t sum = 0;
  char line[128];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    unsigned long long number = 0;
    if (std::sscanf(line, format, &number) == 1) sum += number;
  }
  std::fclose(file);
  return sum;
}

// Returns the bytes that the system can give, UINT64_MAX if it does not report them. MemAvailable
// leaves out free pages in the kernel's lists of each core: since Linux 6.7 these may keep hundreds
// of MiB of freed memory for many seconds.
uint64_t available_memory() {
  const uint64_t kilobytes = sum_of_lines("/proc/meminfo", "MemAvailable: %llu kB");
  if (kilobytes == 0) return UINT64_MAX;
  const uint64_t pages = sum_of_lines("/proc/zoneinfo", " count: %llu");
  return kilobytes * 1024 + pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Repeats the first |pattern_size| bytes (a power of two) up to |size|: doubles the filled part up
// to one page, then repeats that page, which stays in the first-level cache.
void repeat(char* destination, uint64_t pattern_size, uint64_t size) {
  for (uint64_t done = pattern_size; done < size;) {
    const uint64_t step = std::min({done, size - done, uint64_t{4096}});
    std::memcpy(destination + done, destination, step);
    done += step;
  }
}

}  // namespace

Device::Device(int cores, uint64_t memory_limit, bool guarded, bool conformance,
               bool register_huge_pages)
    : space_(guarded),
      host_space_(/*guarded=*/false),
      budget_(memory_limit),
      device_memory_(space_, budget_),
      pinned_memory_(host_space_, budget_),
      pool_(cores),
      conformance_(conformance),
      register_huge_pages_(register_huge_pages) {}

Device::~Device() {
  for (const auto& [object, imported] : imports_) space_.unmap(imported.mapping);
}

Event& Device::make_hold() {
  const std::lock_guard lock(holds_mutex_);
  Event& event = holds_.emplace_back(parking_lot_, /*timing=*/false);
  event.arm();
  return event;
}

keel_status Device::allocate(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind > KEEL_MEMORY_MANAGED) {
    return kit::fail(KEEL_UNSUPPORTED, "cpu: memory kind %u is not known", kind);
  }
  ArenaPool& pool = kind == KEEL_MEMORY_DEVICE ? device_memory_ : pinned_memory_;
  *out_pointer = pool.allocate(size);
  if (*out_pointer != nullptr) return KEEL_OK;
  const int error = errno;
  if (error != 0) {
    return kit::fail(KEEL_OUT_OF_MEMORY, "cpu: the system has no %llu bytes of shared memory: %s%s",
                     static_cast<unsigned long long>(size), std::strerror(error),
                     error == EFBIG ? " (ulimit -f)" : "");
  }
  return kit::fail(KEEL_OUT_OF_MEMORY, "cpu: no room for %llu bytes: %llu of %llu are left",
                   static_cast<unsigned long long>(size),
                   static_cast<unsigned long long>(budget_.left()),
                   static_cast<unsigned long long>(budget_.limit()));
}

keel_status Device::release(keel_memory_kind kind, void* pointer) {
  ArenaPool& pool = kind == KEEL_MEMORY_DEVICE ? device_memory_ : pinned_memory_;
  if (pool.release(pointer)) return KEEL_OK;
  return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: %p is no allocation of this device and kind",
                   pointer);
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) const {
  *out_total = budget_.limit();
  *out_free = std::min(budget_.left(), available_memory());
  return KEEL_OK;
}

keel_status Device::export_memory(const void* pointer, uint64_t size, keel_export_kind kind,
                                  keel_memory_export* out_export) {
  if (kind != KEEL_EXPORT_MEMFD) {
    return kit::fail(KEEL_UNSUPPORTED, "cpu: memory is exported as a memfd only");
  }
  ArenaPool::Location location;
  if (!device_memory_.locate(pointer, size, &location) &&
      !pinned_memory_.locate(pointer, size, &location)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: %p is no memory of this device", pointer);
  }
  const int fd = fcntl(location.fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kit::fail(KEEL_UNAVAILABLE, "cpu: no file descriptor left to export with");
  out_export->kind = KEEL_EXPORT_MEMFD;
  out_export->fd = fd;
  out_export->offset = location.offset;
  out_export->bytes_size = 0;
  out_export->object_size = location.arena_size;
  return KEEL_OK;
}

keel_status Device::import_memory(const keel_memory_export& exported, void** out_pointer,
                                  Import** out_import) {
  if (exported.kind != KEEL_EXPORT_MEMFD) {
    return kit::fail(KEEL_UNSUPPORTED, "cpu: only memfds can be imported");
  }
  struct stat status = {};
  const int seals = fcntl(exported.fd, F_GET_SEALS);
  // Another process could truncate unsealed memory, which would kill this process.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(exported.fd, &status) != 0 ||
      exported.object_size == 0 || static_cast<uint64_t>(status.st_size) != exported.object_size ||
      exported.offset >= exported.object_size) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: not a memfd sealed against shrinking");
  }
  const std::pair<uint64_t, uint64_t> object{status.st_dev, status.st_ino};
  auto import = std::make_unique<Import>(Import{object});
  const std::lock_guard lock(imports_mutex_);
  auto entry = imports_.find(object);
  if (entry == imports_.end()) {
    const auto mapping = space_.map(exported.fd, exported.object_size);
    if (!mapping) return kit::fail(KEEL_OUT_OF_MEMORY, "cpu: no address space left to map into");
    entry = imports_.emplace(object, ImportedObject{*mapping}).first;
  }
  ++entry->second.users;
  *out_pointer = entry->second.mapping.device + exported.offset;
  *out_import = import.release();
  return KEEL_OK;
}

void Device::close_import(Import* import) {
  const std::unique_ptr<Import> owned(import);
  const std::lock_guard lock(imports_mutex_);
  const auto entry = imports_.find(import->object);
  if (--entry->second.users > 0) return;
  space_.unmap(entry->second.mapping);
  imports_.erase(entry);
}

void Device::copy(Stream& stream, void* destination, const void* source, uint64_t size) {
  auto* const to = static_cast<char*>(destination);
  auto* const from = static_cast<const char*>(source);
  const auto work = [=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(static_cast<int64_t>(size), kCopyPiece, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return KEEL_OK;
  };
  stream.enqueue(work, duration_of(size));
}

void Device::fill(Stream& stream, void* destination, const void* pattern, uint32_t pattern_size,
                  uint64_t size) {
  auto* const to = static_cast<char*>(destination);
  uint64_t value = 0;
  std::memcpy(&value, pattern, pattern_size);
  const auto work = [=](ThreadPool& pool) -> keel_status {
    pool.parallel_for(static_cast<int64_t>(size), kCopyPiece, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, &value, pattern_size);
      repeat(to + begin, pattern_size, static_cast<uint64_t>(end - begin));
    });
    return KEEL_OK;
  };
  stream.enqueue(work, duration_of(size));
}

}  // namespace keel::cpu
