// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/table_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>

#include "base/ipc/file_descriptor.h"
#include "collectives/selection/table.h"
#include "core/log.h"

namespace keel {

namespace {

constexpr uint64_t kMostTableBytes = 1 << 20;
constexpr uint32_t kForcedScore = UINT32_MAX;

// Returns KEEL_NOT_FOUND if the file does not exist.
Status read_file(const std::string& path, std::string* out_text) {
  // O_NONBLOCK: do not wait for a pipe's writer.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) {
    return failure(errno == ENOENT ? KEEL_NOT_FOUND : KEEL_INVALID_ARGUMENT, "{}",
                   std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return failure(KEEL_INVALID_ARGUMENT, "is no file");
  if (static_cast<uint64_t>(info.st_size) > kMostTableBytes) {
    return failure(KEEL_INVALID_ARGUMENT, "has {} bytes, a table at most {}", info.st_size,
                   kMostTableBytes);
  }
  out_text->resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < out_text->size()) {
    const ssize_t got = read(file.get(), out_text->data() + done, out_text->size() - done);
    if (got < 0) return failure(KEEL_INVALID_ARGUMENT, "{}", std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  out_text->resize(done);
  return {};
}

Status read_rules(const std::string& path, std::vector<Rule>* out_rules) {
  std::string text;
  Status status = read_file(path, &text);
  if (status.ok()) status = read_table(text, out_rules);
  return status.with_prefix(path + ": ");
}

// The line "model name" of the first processor. Not a standard stream: short of memory, a stream
// would yield a different key.
std::string processor_name() {
  const FileDescriptor file(open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> bytes;
  const ssize_t got = file ? read(file.get(), bytes.data(), bytes.size()) : 0;
  const std::string_view text(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const size_t name = text.find("\nmodel name");
  if (name == std::string_view::npos) return {};
  const std::string_view line = text.substr(name + 1);
  return std::string(line.substr(0, line.find('\n')));
}

std::string machine_key() {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const std::string text = processor_name() + "\n" + std::to_string(sysconf(_SC_NPROCESSORS_CONF));
  for (const char character : text) {
    hash = (hash ^ static_cast<uint8_t>(character)) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

// Warns once per process, file and fault: a job makes hundreds of communicators, and a file changed
// meanwhile may have a new fault.
void warn_once(const char* text) {
  static std::mutex mutex;
  static auto& told = *new std::set<std::string, std::less<>>;  // threads may outlive statics
  {
    const std::lock_guard lock(mutex);
    if (!told.insert(text).second) return;
  }
  log(KEEL_LOG_WARNING,
      "measured table: {}; the built-in one is used until the file is mended or removed", text);
}

Status load_rules(TableSource* out_source) {
  const char* const wanted = secure_getenv("KEEL_COLLECTIVE_TABLE");
  if (wanted != nullptr && *wanted != '\0') {
    if (std::string_view(wanted) == "builtin") return {};
    out_source->name = wanted;
    return read_rules(wanted, &out_source->rules).with_prefix("KEEL_COLLECTIVE_TABLE: ");
  }
  const std::string path = measured_table_path();
  if (path.empty()) return {};
  const Status status = read_rules(path, &out_source->rules);
  if (status.ok()) {
    out_source->name = path;
    return {};
  }
  out_source->rules.clear();
  if (status.code() != KEEL_NOT_FOUND) warn_once(status.text());
  return {};
}

}  // namespace

std::string measured_table_path() {
  std::string folder;
  if (const char* xdg = secure_getenv("XDG_CACHE_HOME"); xdg != nullptr && xdg[0] == '/') {
    folder = xdg;
  } else if (const char* home = secure_getenv("HOME"); home != nullptr && home[0] == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    return {};
  }
  static const std::string key = machine_key();
  return fmt::format("{}/keel/collectives-{}.table", folder, key);
}

Status load_table(TableSource* out_source) {
  *out_source = {};
  KEEL_RETURN_IF_ERROR(load_rules(out_source));
  const char* const shares = secure_getenv("KEEL_LANE_SHARES");
  if (shares != nullptr && *shares != '\0' && !read_lane_shares(shares, &out_source->lane_shares)) {
    return failure(
        KEEL_INVALID_ARGUMENT,
        "KEEL_LANE_SHARES is '{}': a weight from 1 to {} for each local rank, such as 2,1",
        std::string_view(shares).substr(0, 40), kMostLaneShare);
  }
  const char* const forced = secure_getenv("KEEL_ALGORITHM");
  if (forced == nullptr || *forced == '\0') return {};
  const auto algorithm = find_algorithm(forced);
  if (!algorithm) {
    return failure(KEEL_INVALID_ARGUMENT, "KEEL_ALGORITHM is '{}': one of {}",
                   std::string_view(forced).substr(0, 40), algorithm_names());
  }
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    Rule rule;
    rule.collective = static_cast<keel_collective>(i);
    rule.algorithm = *algorithm;
    rule.score = kForcedScore;
    // A barrier has no data and therefore no choice.
    if (rule.collective != KEEL_BARRIER) out_source->rules.push_back(rule);
  }
  out_source->forced = algorithm;
  out_source->name += fmt::format(", KEEL_ALGORITHM={}", forced);
  return {};
}

}  // namespace keel
