// SPDX-License-Identifier: Apache-2.0
// Starts threads, for Keel and for plugins: header-only, without the ABI. If the system refuses a
// thread, the error names the limits.
#ifndef KEEL_THREAD_START_HPP_
#define KEEL_THREAD_START_HPP_

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace keel::kit {

// The system has no thread for this process. A std::bad_alloc, so that code that survives a lack of
// memory survives a lack of threads too, and reports KEEL_OUT_OF_MEMORY. Makes its text without
// allocating.
class NoThread final : public std::bad_alloc {
 public:
  // |name|: the thread's name; |error|: errno of pthread_create.
  NoThread(const char* name, int error) noexcept {
    char reason[96] = {};
    const char* const text = strerror_r(error, reason, sizeof(reason));
    append("no thread for %s: %s (", name, text);
    append_limit("RLIMIT_NPROC", RLIMIT_NPROC);
    rlimit memory = {};
    if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY) {
      append(", ");
      append_limit("RLIMIT_AS", RLIMIT_AS);
    }
    append_cgroup();
    append(
        "): raise the limit that is reached (ulimit -u, pids.max of the cgroup), "
        "or start fewer ranks");
  }

  // Names the limits, their values, and the remedy.
  const char* what() const noexcept override { return text_; }

 private:
  [[gnu::format(printf, 2, 3)]] void append(const char* format, ...) noexcept {
    va_list arguments;
    va_start(arguments, format);
    const int size = std::vsnprintf(text_ + used_, sizeof(text_) - used_, format, arguments);
    va_end(arguments);
    if (size > 0) used_ += static_cast<size_t>(size);
    if (used_ >= sizeof(text_)) used_ = sizeof(text_) - 1;
  }

  template <typename Resource>
  void append_limit(const char* name, Resource resource) noexcept {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0) return;
    if (limit.rlim_cur == RLIM_INFINITY) {
      append("%s unlimited", name);
    } else {
      append("%s %llu", name, static_cast<unsigned long long>(limit.rlim_cur));
    }
  }

  static bool read_number(const char* path, long long* out_number) noexcept {
    FILE* const file = std::fopen(path, "re");
    if (file == nullptr) return false;
    const bool is_number = std::fscanf(file, "%lld", out_number) == 1;  // not "max"
    std::fclose(file);
    return is_number;
  }

  // pids.max of this process's cgroup, or of the nearest cgroup above with a limit.
  void append_cgroup() noexcept {
    FILE* const file = std::fopen("/proc/self/cgroup", "re");
    if (file == nullptr) return;
    char line[512];
    char group[512] = {};
    const char* root = nullptr;
    while (root == nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
      line[std::strcspn(line, "\n")] = '\0';
      const char* const controllers = std::strchr(line, ':');
      const char* const path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
      if (path == nullptr) continue;
      if (std::strncmp(controllers, "::", 2) == 0) root = "/sys/fs/cgroup";
      if (std::strncmp(controllers, ":pids:", 6) == 0) root = "/sys/fs/cgroup/pids";
      if (root != nullptr) std::snprintf(group, sizeof(group), "%s", path + 1);
    }
    std::fclose(file);
    while (root != nullptr) {
      char* const end = std::strrchr(group, '/');
      if (end != nullptr && end[1] == '\0') *end = '\0';
      char limit_path[640];
      std::snprintf(limit_path, sizeof(limit_path), "%s%s/pids.max", root, group);
      long long limit = 0;
      if (read_number(limit_path, &limit)) {
        append(", pids.max %lld", limit);
        return;
      }
      char* const parent = std::strrchr(group, '/');
      if (parent == nullptr) return;
      *parent = '\0';
    }
  }

  char text_[360] = {};
  size_t used_ = 0;
};

// Returns a |Thread| (std::thread or std::jthread) that runs |function|(|arguments|...), named
// |name| for ps, debuggers and traces: up to 15 characters. Throws NoThread, or std::bad_alloc.
template <typename Thread, typename Function, typename... Arguments>
Thread start_thread(const char* name, Function&& function, Arguments&&... arguments) {
  try {
    Thread thread(std::forward<Function>(function), std::forward<Arguments>(arguments)...);
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    throw NoThread(name, error.code().value());
  }
}

}  // namespace keel::kit

#endif  // KEEL_THREAD_START_HPP_
