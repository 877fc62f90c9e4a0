// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight/flight_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/flight/flight_clock.h"
#include "collectives/flight/flight_format.h"
#include "core/plugin_file.h"

namespace keel {
namespace {

// Mode given to a dead process's file when a scan first finds it. The file's time is set to the
// same instant, the best available estimate of the time of death. Writing through a mapping sets no
// times.
constexpr mode_t kSeenDead = 0400;
constexpr std::string_view kPrefix = "flight-";

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

// Whether a process of this machine, in any container, has created the file since the machine's
// start.
bool is_of_this_boot(int file) {
  std::array<char, sizeof(FlightHeader::boot_id)> boot = {};
  const ssize_t size = pread(file, boot.data(), boot.size(), offsetof(FlightHeader, boot_id));
  const std::string own = boot_id();
  return size == ssize_t{boot.size()} && !own.empty() &&
         own == std::string_view(boot.data(), strnlen(boot.data(), boot.size()));
}

// Fills |*out| if the file belongs to a dead process; otherwise returns false.
bool look_for_dead(int folder, const std::string& name, DeadFlight* out) {
  const FileDescriptor file(
      openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about = {};
  if (!file || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return false;
  // 1 h, since a file that is just being created has no lock yet.
  constexpr time_t kBeingMade = 3600;
  const bool is_young = about.st_size == 0 && time(nullptr) - about.st_mtime < kBeingMade;
  if (is_young) return false;
  const std::optional<FlightName> parsed = FlightName::parse(name);
  const bool is_own_host = parsed && parsed->host == FlightName::this_host();
  const std::optional<bool> is_locked = is_flight_locked(file.get());
  if (is_locked == true) return false;
  if (is_own_host || is_of_this_boot(file.get())) {
    if (!is_locked && (!is_own_host || does_process_exist(parsed->pid))) return false;
  } else {
    // Some network file systems keep locks within each machine: the process may live, for weeks.
    constexpr time_t kMostAge = 30 * 86'400;
    if (time(nullptr) - about.st_mtime < kMostAge) return false;
  }
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

std::optional<bool> is_flight_locked(int file) {
  struct flock lock = whole_file();
  if (fcntl(file, F_OFD_GETLK, &lock) != 0) return std::nullopt;
  return lock.l_type != F_UNLCK;
}

bool does_process_exist(int32_t pid) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

// FNV-1a. Machines differ in the boot id, containers in the pid namespace or, where /proc is
// hidden, in the host name.
uint32_t FlightName::this_host() {
  uint32_t hash = 0x811c9dc5;
  for (const char each : fmt::format("{} {} {}", boot_id(), namespace_number("pid"), host_name())) {
    hash = (hash ^ static_cast<uint8_t>(each)) * 0x01000193;
  }
  return hash;
}

std::optional<FlightName> FlightName::parse(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* at = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  // Reads a number and the separator behind it, or the end of the name behind the last one.
  const auto read = [&](auto* out, int base, bool is_last) {
    const auto found = std::from_chars(at, end, *out, base);
    at = is_last ? found.ptr : found.ptr + 1;
    return found.ec == std::errc() && (found.ptr == end) == is_last &&
           (is_last || *found.ptr == '-');
  };
  FlightName parsed;
  if (!read(&parsed.host, 16, false) || !read(&parsed.pid, 10, false) ||
      !read(&parsed.number, 10, true) || parsed.pid <= 0) {
    return std::nullopt;
  }
  return parsed;
}

std::string FlightName::text() const {
  return fmt::format("{}{:08x}-{}-{}", kPrefix, host, pid, number);
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
    const std::optional<FlightName> name = FlightName::parse(entry->d_name);
    if (name && (pid == 0 || name->pid == pid)) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void clean_flights(int folder) {
  constexpr size_t kKept = 256;
  constexpr time_t kDay = 86'400;
  std::vector<DeadFlight> dead;
  for (const std::string& name : list_flights(folder)) {
    DeadFlight found;
    if (look_for_dead(folder, name, &found)) dead.push_back(std::move(found));
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
