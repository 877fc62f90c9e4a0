// SPDX-License-Identifier: Apache-2.0
// For Keel and plugins: CPU time, in cores, that Linux's control groups leave to a process.
#ifndef KEEL_CPU_LIMIT_HPP_
#define KEEL_CPU_LIMIT_HPP_

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

// The smallest quota (CFS bandwidth) of a process's control group and of the groups above it, as
// far as they are mounted: inside a container, the container's groups. The affinity mask does not
// show quotas: a container with the time of two cores sees all cores of its host, and threads for
// all of them are stopped for most of each period.
class CpuLimit {
 public:
  // Limit of process |pid|; 0: of this process. No limit where the system reports none. Mounts are
  // read once: there may be hundreds, and a communicator asks for each of its processes.
  static CpuLimit of(int64_t pid = 0) {
    static const auto& mounts = *new std::vector<Mount>(read_mounts("/proc/self/mountinfo"));
    const std::string process = pid == 0 ? "self" : std::to_string(pid);
    return read("/proc/" + process + "/cgroup", mounts);
  }
  // |groups|: path of a file like /proc/PID/cgroup; |mounts|: of a file like /proc/self/mountinfo.
  // Both name groups from this process's namespace.
  static CpuLimit read(const std::string& groups, const std::string& mounts) {
    return read(groups, read_mounts(mounts));
  }

  bool is_limited() const { return cores_ != std::numeric_limits<double>::infinity(); }
  // May be a fraction; infinite without a limit.
  double cores() const { return cores_; }
  // Folder of the group with the smallest quota.
  const std::string& group() const { return group_; }
  // Number of threads that get a core each when the process may run on |cores|: |cores| or, if
  // less, the whole part of cores(), at least 1.
  uint32_t whole_cores(uint32_t cores) const {
    if (cores_ >= cores) return cores;
    return std::max(1u, static_cast<uint32_t>(cores_));
  }

 private:
  struct Mount {
    bool is_second;  // cgroup v2
    std::string root;
    std::string point;
  };

  static CpuLimit read(const std::string& groups, const std::vector<Mount>& mounts) {
    CpuLimit limit;
    const std::string text = content(groups);
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = take_until(&rest, '\n');
      // "4:cpu,cpuacct:/a/b", in version 2 "0::/a/b".
      const size_t first = line.find(':');
      const size_t second = line.find(':', first + 1);
      if (second == std::string_view::npos) continue;
      const std::string_view controllers = line.substr(first + 1, second - first - 1);
      const bool is_second = controllers.empty();
      if (!is_second && !has_word(controllers, "cpu")) continue;
      for (const Mount& mount : mounts) {
        if (mount.is_second == is_second) limit.take(mount, std::string(line.substr(second + 1)));
      }
    }
    return limit;
  }

  // Content of a file; empty if unreadable. Uses no stream, because a stream would hide a lack of
  // memory.
  static std::string content(const std::string& path) {
    std::string text;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                               std::fclose);
    char block[4096];
    size_t got = 0;
    while (file != nullptr && (got = std::fread(block, 1, sizeof(block), file.get())) > 0) {
      text.append(block, got);
    }
    return text;
  }

  // Removes the text before |end| and |end| itself from |*rest|, and returns the text; without
  // |end|, all of |*rest|.
  static std::string_view take_until(std::string_view* rest, char end) {
    const std::string_view taken = rest->substr(0, rest->find(end));
    rest->remove_prefix(std::min(taken.size() + 1, rest->size()));
    return taken;
  }

  // Whether |list|, separated by commas, contains |word|.
  static bool has_word(std::string_view list, std::string_view word) {
    while (!list.empty()) {
      if (take_until(&list, ',') == word) return true;
    }
    return false;
  }

  // "\040" in mountinfo is a space.
  static std::string unescape(std::string_view text) {
    std::string plain;
    for (size_t at = 0; at < text.size(); ++at) {
      unsigned code = 0;
      const char* const digits = text.data() + at + 1;
      if (text[at] == '\\' && at + 3 < text.size() &&
          std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
        plain += static_cast<char>(code);
        at += 3;
      } else {
        plain += text[at];
      }
    }
    return plain;
  }

  // Mounts of control groups that limit processor time.
  static std::vector<Mount> read_mounts(const std::string& path) {
    std::vector<Mount> mounts;
    const std::string text = content(path);
    for (std::string_view rest = text; !rest.empty();) {
      // "32 31 0:29 ROOT POINT rw,relatime shared:4 - cgroup cgroup rw,cpu"
      std::string_view line = take_until(&rest, '\n');
      const size_t dash = line.find(" - ");
      if (dash == std::string_view::npos) continue;
      std::string_view behind = line.substr(dash + 3);
      const std::string_view type = take_until(&behind, ' ');
      take_until(&behind, ' ');
      const bool is_second = type == "cgroup2";
      if (!is_second && (type != "cgroup" || !has_word(behind, "cpu"))) continue;
      for (int skipped = 0; skipped < 3; ++skipped) take_until(&line, ' ');
      const std::string_view root = take_until(&line, ' ');
      const std::string_view point = take_until(&line, ' ');
      mounts.push_back({is_second, unescape(root), unescape(point)});
    }
    return mounts;
  }

  // Applies the quotas of group |path| of |mount| and of the groups above it.
  void take(const Mount& mount, const std::string& path) {
    // A container's mount may show only a part of the hierarchy, and the path of a process of
    // another namespace may lie outside that part: then the mount's own root counts.
    const std::string root = mount.root == "/" ? "" : mount.root;
    std::string below;
    if (path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/')) {
      below = path.substr(root.size());
    }
    if (below == "/" || below.starts_with("/..")) below.clear();
    while (true) {
      read_group(mount, mount.point + below);
      if (below.empty()) return;
      below.erase(below.rfind('/'));
    }
  }

  void read_group(const Mount& mount, const std::string& folder) {
    // Microseconds of each period: "150000 100000", "max 100000"; in version 1, two files.
    const std::string text = mount.is_second ? content(folder + "/cpu.max")
                                             : content(folder + "/cpu.cfs_quota_us") + " " +
                                                   content(folder + "/cpu.cfs_period_us");
    int64_t quota = 0;
    int64_t period = 0;
    const char* const end = text.data() + text.size();
    const char* at = std::from_chars(text.data(), end, quota).ptr;
    while (at != end && (*at == ' ' || *at == '\n')) ++at;
    std::from_chars(at, end, period);
    if (quota <= 0 || period <= 0) return;
    const double cores = static_cast<double>(quota) / static_cast<double>(period);
    if (cores >= cores_) return;
    cores_ = cores;
    group_ = folder;
  }

  double cores_ = std::numeric_limits<double>::infinity();
  std::string group_;
};

}  // namespace keel

#endif  // KEEL_CPU_LIMIT_HPP_
