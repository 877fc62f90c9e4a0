// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/testing/refused_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace keel::testing {

namespace {

// Written by the thread that receives the command; Keel's threads read only while g_refuses is set.
struct Refusal {
  MemoryStep step;
  std::array<char, 64> name;
};
Refusal g_refusal;
std::atomic<bool> g_refuses{false};

bool is_refused(MemoryStep step, const char* name) {
  return g_refuses.load(std::memory_order_acquire) && g_refusal.step == step &&
         std::strcmp(g_refusal.name.data(), name) == 0;
}

// Checks the file behind |fd|.
bool is_refused(MemoryStep step, int fd) {
  if (fd < 0 || !g_refuses.load(std::memory_order_acquire) || g_refusal.step != step) return false;
  std::array<char, 40> link;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  std::array<char, 128> target = {};
  if (readlink(link.data(), target.data(), target.size() - 1) <= 0) return false;
  std::array<char, 128> wanted;
  std::snprintf(wanted.data(), wanted.size(), "/memfd:%s (deleted)", g_refusal.name.data());
  return std::strcmp(target.data(), wanted.data()) == 0;
}

// Returns the next definition after this program's: the sanitizer's or the system's.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void refuse_memory(MemoryStep step, const std::string& name) {
  g_refuses.store(false, std::memory_order_release);
  if (name.empty()) return;
  g_refusal.step = step;
  std::snprintf(g_refusal.name.data(), g_refusal.name.size(), "%s", name.c_str());
  g_refuses.store(true, std::memory_order_release);
}

}  // namespace keel::testing

using keel::testing::is_refused;
using keel::testing::MemoryStep;

// Seen by the libraries that call them.
#pragma GCC visibility push(default)
extern "C" {

int memfd_create(const char* name, unsigned int flags) noexcept {
  static auto* const real = keel::testing::next<int(const char*, unsigned int)>("memfd_create");
  if (!is_refused(MemoryStep::kMaking, name)) return real(name, flags);
  errno = ENOMEM;
  return -1;
}

int ftruncate(int fd, off_t length) noexcept {
  static auto* const real = keel::testing::next<int(int, off_t)>("ftruncate");
  if (!is_refused(MemoryStep::kSizing, fd)) return real(fd, length);
  errno = ENOSPC;
  return -1;
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  static auto* const real = keel::testing::next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (!is_refused(MemoryStep::kMapping, fd)) {
    return real(address, length, protection, flags, fd, offset);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

}  // extern "C"
#pragma GCC visibility pop
