// SPDX-License-Identifier: Apache-2.0
#include "conformance/leftovers.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "conformance/text_file.h"

namespace keel::conformance {

namespace {

struct Process {
  pid_t parent = 0;
  char state = '?';
  std::string name;
};

// Parses /proc/PID/stat: "PID (NAME) STATE PARENT ...", where NAME may contain any character.
Process read_process(const std::string& pid) {
  std::string text;
  (void)read_file("/proc/" + pid + "/stat", &text);  // missing once the process has ended
  const size_t begin = text.find('(');
  const size_t end = text.rfind(')');
  Process process;
  if (begin == std::string::npos || end == std::string::npos || end + 4 > text.size()) {
    return process;
  }
  process.name = text.substr(begin + 1, end - begin - 1);
  process.state = text[end + 2];
  (void)std::from_chars(text.data() + end + 4, text.data() + text.size(), process.parent);
  return process;
}

std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure == std::errc() && end == name.data() + name.size()) all[pid] = read_process(name);
  }
  return all;
}

bool is_below(const std::map<pid_t, Process>& all, pid_t pid, pid_t top) {
  for (size_t steps = 0; steps < all.size(); ++steps) {
    const auto found = all.find(pid);
    if (found == all.end() || found->second.parent == 0) return false;
    pid = found->second.parent;
    if (pid == top) return true;
  }
  return false;
}

}  // namespace

Leftovers::Leftovers() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<std::string> Leftovers::end() {
  std::vector<std::string> names;
  std::set<pid_t> killed;  // a killed process with much memory is there for several rounds
  // A process may start a child during the scan, so scan until no descendant is left. The kill of a
  // parent makes its orphans children of this process.
  constexpr int kMostRounds = 1000;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto all = all_processes();
    bool any = false;
    for (const auto& [pid, process] : all) {
      if (!is_below(all, pid, getpid())) continue;
      any = true;
      if (process.state == 'Z') continue;
      if (kill(pid, SIGKILL) == 0 && killed.insert(pid).second) {
        names.push_back(fmt::format("{} ({})", process.name, pid));
      }
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!any) break;
    usleep(1000);
  }
  return names;
}

}  // namespace keel::conformance
