// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/fork_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>

namespace keel::cpu {
namespace {

std::atomic<ForkMemory> g_choice{ForkMemory::kPrivate};

struct Shared {
  uint64_t size;
  int fd;
};

// Never destroyed: a process may fork while it exits.
class PrivateInChildren {
 public:
  static PrivateInChildren& get() {
    static PrivateInChildren& instance = *new PrivateInChildren;
    return instance;
  }

  void add(char* host, const Shared& mapping) {
    const std::lock_guard lock(mutex_);
    mappings_[host] = mapping;
  }
  void remove(char* host) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(host);
  }

 private:
  // The lock is held across the fork, so that the child sees whole mappings.
  PrivateInChildren() {
    pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                   [] {
                     get().map_privately();
                     get().mutex_.unlock();
                   });
  }

  // Only calls that are safe after a fork of a process with threads: no allocation.
  void map_privately() {
    for (const auto& [host, mapping] : mappings_) {
      const void* const mapped = mmap(host, mapping.size, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, mapping.fd, 0);
      // Better no memory than the parent's.
      if (mapped == MAP_FAILED) munmap(host, mapping.size);
    }
  }

  std::mutex mutex_;
  std::map<char*, Shared> mappings_;
};

}  // namespace

void set_fork_memory(ForkMemory choice) {
  g_choice.store(choice, std::memory_order_relaxed);
}

bool add_fork_mapping(char* host, uint64_t size, int fd) {
  switch (g_choice.load(std::memory_order_relaxed)) {
    case ForkMemory::kShared:
      return true;
    case ForkMemory::kUnmapped:
      return madvise(host, size, MADV_DONTFORK) == 0;
    case ForkMemory::kPrivate:
      break;
  }
  try {
    PrivateInChildren::get().add(host, {size, fd});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void remove_fork_mapping(char* host) {
  PrivateInChildren::get().remove(host);
}

}  // namespace keel::cpu
