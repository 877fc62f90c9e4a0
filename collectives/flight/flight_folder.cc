// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight/flight_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>

#include "core/plugin_file.h"

namespace keel {
namespace {

// Mode given to a dead process's file when a scan first finds it. The file's time is set to the
// same instant, the best available estimate of the time of death. Writing through a mapping sets no
// times.
constexpr mode_t kSeenDead = 0400;

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

struct DeadFlight {
  std::string name;
  time_t time;
};

// Fills |*out| if the file belongs to a dead process; otherwise returns false.
bool look_for_dead(int folder, const std::string& name, int32_t pid, DeadFlight* out) {
  const FileDescriptor file(
      openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about = {};
  if (!file || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return false;
  // 1 h, since a file that is just being created has no lock yet.
  constexpr time_t kBeingMade = 3600;
  const bool is_young = about.st_size == 0 && time(nullptr) - about.st_mtime < kBeingMade;
  if (is_young || is_flight_alive(file.get(), pid)) return false;
  *out = {name, about.st_mtime};
  if ((about.st_mode & 0777) != kSeenDead) {
    futimens(file.get(), nullptr);
    fchmod(file.get(), kSeenDead);
    out->time = time(nullptr);
  }
  return true;
}

}  // namespace

std::string flight_folder() {
  const char* wanted = trusted_environment("KEEL_FLIGHT_DIR");
  if (wanted != nullptr && wanted[0] != '\0') return wanted;
  return fmt::format("/dev/shm/keel-{}", geteuid());
}

Status open_flight_folder(const std::string& path, FileDescriptor* out_folder) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return failure(KEEL_PERMISSION_DENIED, "folder {}: {}", path, std::strerror(errno));
  }
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about = {};
  if (!folder || fstat(folder.get(), &about) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "folder {}: {}", path, std::strerror(errno));
  }
  if (about.st_uid != geteuid()) {
    return failure(KEEL_PERMISSION_DENIED, "folder {} belongs to user {}, not to {}", path,
                   about.st_uid, geteuid());
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return failure(KEEL_PERMISSION_DENIED, "folder {} may be written by others (mode {:o})", path,
                   about.st_mode & 07777);
  }
  *out_folder = std::move(folder);
  return {};
}

bool lock_flight(int file) {
  struct flock lock = whole_file();
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool is_flight_alive(int file, int32_t pid) {
  struct flock lock = whole_file();
  if (fcntl(file, F_OFD_GETLK, &lock) == 0) return lock.l_type != F_UNLCK;
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

bool parse_flight_name(const std::string& name, int32_t* out_pid) {
  constexpr const char kPrefix[] = "flight-";
  if (!name.starts_with(kPrefix)) return false;
  const char* end = name.data() + name.size();
  int32_t pid = 0;
  const auto first = std::from_chars(name.data() + std::strlen(kPrefix), end, pid);
  if (first.ec != std::errc() || pid <= 0 || first.ptr == end || *first.ptr != '-') return false;
  uint32_t number = 0;
  const auto second = std::from_chars(first.ptr + 1, end, number);
  if (second.ec != std::errc() || second.ptr != end) return false;
  *out_pid = pid;
  return true;
}

std::vector<std::string> list_flights(int folder, int32_t pid) {
  std::vector<std::string> names;
  const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(fdopendir(again), closedir);
  if (list == nullptr) {
    close(again);
    return names;
  }
  while (const dirent* entry = readdir(list.get())) {
    int32_t of = 0;
    if (parse_flight_name(entry->d_name, &of) && (pid == 0 || of == pid)) {
      names.emplace_back(entry->d_name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void clean_flights(int folder) {
  constexpr size_t kKept = 256;
  constexpr time_t kDay = 86'400;
  std::vector<DeadFlight> dead;
  for (const std::string& name : list_flights(folder)) {
    int32_t pid = 0;
    DeadFlight found;
    parse_flight_name(name, &pid);
    if (look_for_dead(folder, name, pid, &found)) dead.push_back(std::move(found));
  }
  std::sort(dead.begin(), dead.end(),
            [](const DeadFlight& a, const DeadFlight& b) { return a.time > b.time; });
  const time_t now = time(nullptr);
  for (size_t i = 0; i < dead.size(); ++i) {
    if (i >= kKept || now - dead[i].time > kDay) unlinkat(folder, dead[i].name.c_str(), 0);
  }
}

void clean_flights_at_times(int folder, const std::string& path) {
  constexpr auto kPause = std::chrono::minutes(1);
  struct Cleaned {
    std::mutex mutex;
    std::string path;
    std::chrono::steady_clock::time_point time;
  };
  static auto& cleaned = *new Cleaned;
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(cleaned.mutex);
    if (cleaned.path == path && now - cleaned.time < kPause) return;
    cleaned.path = path;
    cleaned.time = now;
  }
  clean_flights(folder);
}

}  // namespace keel
