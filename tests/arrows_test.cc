// SPDX-License-Identifier: Apache-2.0
// Dependencies between the folders of the project, as includes and as the order of CMake:
// tools, conformance -> collectives -> ops -> core -> files, include; frameworks -> include alone;
// base is for all but libkeel, which reads no JSON and includes base/ipc alone; backends -> the
// vendor side of include alone; emulator -> ops, and only backends/sim -> emulator; kernels/gpu is
// for backends/gpu, what the GPU plugins have in common, these plugins, and emulator/simt. Vendors'
// interfaces in vendor/ are for backends and the emulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Set = std::set<std::string>;

// Folders of the project whose headers each folder may include, besides its own. A folder inside
// another has a line of its own where its dependencies differ.
const std::map<std::string, Set> kMay = {
    {"include", {"keel"}},
    {"base", {}},
    {"base/ipc", {}},
    {"files", {}},
    {"core", {"keel", "base/ipc", "files"}},
    {"ops", {"keel", "core"}},
    {"collectives", {"keel", "base/ipc", "files", "core", "ops"}},
    {"lib", {"keel"}},
    {"kernels/gpu", {}},
    {"vendor", {}},
    {"emulator", {"keel", "base", "base/ipc", "ops", "vendor", "emulator/simt"}},
    {"emulator/simt", {"keel", "base", "base/ipc", "ops", "vendor", "emulator", "kernels/gpu"}},
    {"backends", {"keel", "vendor"}},
    {"backends/cuda", {"keel", "vendor", "kernels/gpu", "backends/gpu"}},
    {"backends/gpu", {"keel", "vendor", "kernels/gpu"}},
    {"backends/hip", {"keel", "vendor", "kernels/gpu", "backends/gpu"}},
    {"backends/level_zero", {"keel", "vendor", "kernels/gpu", "backends/gpu"}},
    {"backends/sim", {"keel", "vendor", "emulator"}},
    {"tensorfile", {"keel", "base", "base/ipc", "files"}},
    {"parallel", {"keel", "base", "base/ipc", "files", "tensorfile"}},
    {"samples", {"keel", "base", "base/ipc", "tensorfile"}},
    {"samples/out_of_tree_plugin", {"keel"}},
    // The faulty plugins are the plugin that vendors are shown, with a fault.
    {"conformance",
     {"keel", "base", "base/ipc", "core", "ops", "collectives", "tensorfile",
      "samples/out_of_tree_plugin"}},
    {"bench",
     {"keel", "base", "base/ipc", "core", "ops", "collectives", "samples", "backends",
      "backends/cuda", "backends/gpu", "tensorfile", "parallel"}},
    {"tools",
     {"keel", "base", "base/ipc", "core", "ops", "collectives", "conformance", "tensorfile"}},
    {"tools/perf",
     {"keel", "base", "base/ipc", "core", "ops", "collectives", "tensorfile", "bench", "tools"}},
    {"tools/keel",
     {"keel", "base", "base/ipc", "core", "ops", "collectives", "conformance", "tensorfile",
      "tools", "tools/perf"}},
    {"frameworks", {"keel"}},
    {"fuzz",
     {"keel", "base", "base/ipc", "core", "collectives", "backends", "backends/cuda",
      "backends/gpu", "backends/sim", "conformance", "emulator", "tensorfile", "tools",
      "tools/keel"}},
};
const Set kVendorSide = {"keel/abi.h",
                         "keel/cpu_kernel.h",
                         "keel/plugin/numbers.hpp",
                         "keel/plugin/slots.hpp",
                         "keel/plugin_kit.hpp",
                         "keel/packed_weights.hpp",
                         "keel/permutation.hpp",
                         "keel/rows.hpp",
                         "keel/float_types.hpp",
                         "keel/cpu_limit.hpp",
                         "keel/thread_start.hpp",
                         "keel/fork_settings.h"};

// The folder of kMay that |path| is in: one of two names, if kMay has a line for it.
std::string folder_of(const std::string& path) {
  const size_t first = path.find('/');
  const std::string two = path.substr(0, path.find('/', first + 1));
  return kMay.count(two) != 0 ? two : path.substr(0, first);
}

// Why |file| (a path in the project) may not include |header|; empty if it may.
std::string objection(const std::string& file, const std::string& header) {
  const std::string folder = folder_of(file);
  const std::string target = folder_of(header);
  const bool is_ours = target == "keel" || kMay.count(target) != 0;
  const bool is_test = file.find("_test") != std::string::npos;
  if (header.find('/') == std::string::npos || !is_ours || is_test) return {};
  if (file.rfind("backends/", 0) == 0 && header.rfind("backends/", 0) == 0) {
    // Each folder is a plugin of its own.
    const std::string own = file.substr(0, file.find('/', sizeof("backends/") - 1) + 1);
    if (header.rfind(own, 0) == 0) return {};
    // What two plugins compile, each for itself.
    if (header.rfind("backends/gpu/", 0) == 0 && kMay.at(folder).count("backends/gpu") != 0)
      return {};
    return file + " includes " + header + ": backends do not see each other";
  }
  if (file.rfind("backends/", 0) == 0 && target == "keel" && kVendorSide.count(header) == 0) {
    return file + " includes " + header + ": backends see the vendor side alone";
  }
  // The emulated chip knows no plugin: only its operators see what tensors are.
  if (file.rfind("emulator/", 0) == 0 && target == "keel") {
    const bool is_kernel = file.rfind("emulator/reference_kernel.", 0) == 0;
    if (is_kernel && kVendorSide.count(header) != 0) return {};
    // Formats of numbers, and threads: no ABI.
    if (header == "keel/float_types.hpp" || header == "keel/thread_start.hpp") return {};
    // Kernels that were compiled for the host.
    if (file.rfind("emulator/shims/", 0) == 0 && header == "keel/cpu_kernel.h") return {};
    return file + " includes " + header + ": the emulator knows no ABI";
  }
  if (target == folder || kMay.at(folder).count(target) != 0) return {};
  return file + " includes " + header + ": against the arrows";
}

std::vector<std::string> includes(const fs::path& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> found;
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

Set top_folders() {
  Set folders;
  for (const auto& [folder, targets] : kMay) folders.insert(folder.substr(0, folder.find('/')));
  return folders;
}

// The folders that the project's CMakeLists.txt adds, in order.
std::vector<std::string> added_folders() {
  static const std::regex pattern(R"(^\s*add_subdirectory\(([\w/]+)\))");
  std::vector<std::string> found;
  std::ifstream text(fs::path(KEEL_SOURCE_DIR) / "CMakeLists.txt");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

TEST(ArrowsTest, Hold) {
  int seen = 0;
  for (const std::string& folder : top_folders()) {
    const fs::path root = fs::path(KEEL_SOURCE_DIR) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string kind = entry.path().extension();
      if (kind != ".h" && kind != ".hpp" && kind != ".cc" && kind != ".c") continue;
      const std::string file = fs::relative(entry.path(), KEEL_SOURCE_DIR);
      for (const std::string& header : includes(entry.path())) {
        ++seen;
        EXPECT_EQ(objection(file, header), "");
      }
    }
  }
  EXPECT_GT(seen, 100) << "the scan does not see the sources";
}

TEST(ArrowsTest, CMakeAddsAFolderAfterThoseItUses) {
  const std::vector<std::string> added = added_folders();
  const auto place = [&](const std::string& folder) {
    const auto whole = std::find(added.begin(), added.end(), folder);
    if (whole != added.end()) return whole;
    return std::find(added.begin(), added.end(), folder.substr(0, folder.find('/')));
  };
  int seen = 0;
  for (const auto& [folder, targets] : kMay) {
    const auto own = place(folder);
    if (own == added.end()) continue;  // headers alone
    for (const std::string& target : targets) {
      const auto other = place(target);
      if (other == added.end() || other == own) continue;
      ++seen;
      EXPECT_LT(other - added.begin(), own - added.begin()) << folder << " uses " << target;
    }
  }
  EXPECT_GT(seen, 20) << "the scan does not see the folders of CMakeLists.txt";
}

TEST(ArrowsTest, AForbiddenIncludeIsCaught) {
  EXPECT_NE(objection("core/stream.cc", "ops/schema.h"), "");
  EXPECT_NE(objection("ops/dispatch.cc", "collectives/communicator.h"), "");
  EXPECT_NE(objection("files/output_file.cc", "core/status.h"), "");
  EXPECT_NE(objection("backends/vulkan/cache_file.cc", "files/output_file.h"), "");
  EXPECT_EQ(objection("core/trace/trace_file.cc", "files/output_file.h"), "");
  EXPECT_NE(objection("base/printable.cc", "core/status.h"), "");
  EXPECT_NE(objection("base/printable.cc", "keel/abi.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "base/printable.h"), "");
  EXPECT_NE(objection("core/status.cc", "base/strict_json.h"), "");
  EXPECT_EQ(objection("core/plugin_file.cc", "base/ipc/file_descriptor.h"), "");
  EXPECT_NE(objection("base/ipc/process.cc", "base/strict_json.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "base/ipc/file_descriptor.h"), "");
  EXPECT_EQ(objection("tensorfile/safetensors.cc", "base/strict_json.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "keel/keel.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "core/status.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "backends/vulkan/queue.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "emulator/device.h"), "");
  EXPECT_NE(objection("emulator/stream.h", "keel/abi.h"), "");
  EXPECT_NE(objection("emulator/stream.h", "core/status.h"), "");
  EXPECT_NE(objection("samples/x.cc", "core/status.h"), "");
  EXPECT_NE(objection("frameworks/torch/src/lane.cc", "collectives/communicator.h"), "");
  EXPECT_NE(objection("frameworks/torch/src/lane.cc", "base/printable.h"), "");
  EXPECT_EQ(objection("frameworks/torch/src/lane.cc", "keel/keel.h"), "");
  EXPECT_EQ(objection("frameworks/torch/src/lane.cc", "torch/csrc/utils/pybind.h"), "");
  EXPECT_NE(objection("tensorfile/safetensors.cc", "core/status.h"), "");
  EXPECT_EQ(objection("samples/x.cc", "tensorfile/safetensors.h"), "");
  EXPECT_NE(objection("core/device.cc", "vendor/nvml.h"), "");
  EXPECT_EQ(objection("backends/cuda/nvml.h", "vendor/nvml.h"), "");
  EXPECT_EQ(objection("backends/sim/plugin.cc", "emulator/device.h"), "");
  EXPECT_EQ(objection("emulator/reference_kernel.cc", "ops/testing/reference.h"), "");
  EXPECT_EQ(objection("emulator/ccl/arithmetic.cc", "keel/float_types.hpp"), "");
  EXPECT_EQ(objection("emulator/queue.cc", "keel/thread_start.hpp"), "");
  EXPECT_EQ(objection("emulator/shims/cuda/host_image.h", "keel/cpu_kernel.h"), "");
  EXPECT_NE(objection("emulator/shims/cuda/driver.h", "keel/abi.h"), "");
  EXPECT_NE(objection("backends/cuda/driver.cc", "emulator/shims/cuda/driver.h"), "");
  EXPECT_EQ(objection("backends/cpu/plugin.cc", "backends/cpu/runtime/device.h"), "");
  EXPECT_EQ(objection("backends/cuda/ops.h", "kernels/gpu/arguments.h"), "");
  EXPECT_NE(objection("backends/cpu/plugin.cc", "kernels/gpu/arguments.h"), "");
  EXPECT_NE(objection("tools/perf/perf.cc", "tools/keel/run.h"), "");
  EXPECT_NE(objection("tools/command.cc", "tools/perf/perf.h"), "");
  EXPECT_EQ(objection("tools/keel/main.cc", "tools/perf/perf.h"), "");
  EXPECT_NE(objection("kernels/gpu/simt.h", "backends/cuda/device.h"), "");
  EXPECT_NE(objection("kernels/gpu/simt.h", "emulator/simt/machine.h"), "");
  EXPECT_EQ(objection("emulator/simt/target/simt_target.h", "kernels/gpu/types.h"), "");
  EXPECT_NE(objection("emulator/stream.cc", "kernels/gpu/types.h"), "");
  EXPECT_EQ(objection("ops/dispatch.cc", "core/stream.h"), "");
}

// Calls |visit|(file, line) for each line of the project's sources and headers.
template <typename Visit>
void for_each_line(const Visit& visit) {
  for (const std::string& folder : top_folders()) {
    const fs::path root = fs::path(KEEL_SOURCE_DIR) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string kind = entry.path().extension();
      if (kind != ".h" && kind != ".hpp" && kind != ".cc" && kind != ".c") continue;
      const std::string file = fs::relative(entry.path(), KEEL_SOURCE_DIR);
      std::ifstream text(entry.path());
      for (std::string line; std::getline(text, line);) visit(file, line);
    }
  }
}

bool has_any(const std::string& line, std::initializer_list<const char*> pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [&](const char* piece) { return line.find(piece) != std::string::npos; });
}

bool is_test(const std::string& file) {
  return file.find("_test") != std::string::npos || file.find("/testing/") != std::string::npos;
}

// Two members of one key, a byte-order mark and bytes behind a NUL are taken by the library's own
// parser: two readers see two contents.
TEST(ArrowsTest, JsonIsParsedInOnePlace) {
  static const std::regex calls(
      R"(\b(json|Json|ordered_json)::(parse|accept|sax_parse|from_\w+)\s*\()");
  int seen = 0;
  for_each_line([&](const std::string& file, const std::string& line) {
    // Most lines need no regular expression, which takes a hundred times as long.
    if (line.find("son::") == std::string::npos || is_test(file)) return;
    if (!std::regex_search(line, calls)) return;
    ++seen;
    EXPECT_EQ(file, "base/strict_json.cc") << line << "\nparse_json() of base/strict_json.h is "
                                           << "the parser of all that Keel reads";
  });
  EXPECT_NE(seen, 0) << "the scan does not see the parser";
}

// Whether |line| declares or calls sockets of the system.
bool uses_system_sockets(const std::string& line) {
  static const std::regex pattern(
      R"(#\s*include <(sys/socket|sys/un|netdb|arpa/inet|ifaddrs|net/if)\.h>)"
      R"(|(^|[^\w.>:])(::)?(socketpair|accept4|(send|recv)m?msg|(get|set)sockopt|getaddrinfo|)"
      R"(get(sock|peer)name|inet_[pn]to[pn])\()"
      R"(|[^\w>]::(socket|bind|listen|accept|connect|send|recv)\()");
  // Every match has one of these pieces, and most lines have none: a search takes a hundredth.
  static constexpr std::initializer_list<const char*> kPieces = {
      "sock",       "sys/un",  "netdb",    "inet",     "ifaddrs",   "net/if",
      "accept4(",   "msg(",    "addrinfo", "peername", "::listen(", "::accept(",
      "::connect(", "::bind(", "::send(",  "::recv("};
  if (!has_any(line, kPieces)) return false;
  return std::regex_search(line, pattern);
}

// Interrupted calls, SIGPIPE, close-on-exec and descriptors in flight are handled in base/ipc.
TEST(ArrowsTest, SocketsAreCalledInOnePlace) {
  const std::map<std::string, std::string> exceptions = {
      {"collectives/bootstrap/launcher_environment_test.cc", "a socket that a process inherits"},
      {"collectives/bootstrap/unix_socket_test.cc", "replaces recvmsg"},
      {"collectives/testing/byte_relay.cc", "replaces connect"},
      {"collectives/testing/packet_switch.cc", "sets up interfaces"},
      {"collectives/transports/ucx/ucx_api.h", "sockaddr, in structures of UCX"},
      {"conformance/faulty/forger.cc", "a plugin, which sees the vendor side alone"}};
  int seen = 0;
  for_each_line([&](const std::string& file, const std::string& line) {
    if (!uses_system_sockets(line)) return;
    const bool is_layer = folder_of(file) == "base/ipc";
    if (is_layer) ++seen;
    EXPECT_TRUE(is_layer || exceptions.count(file) != 0)
        << file << ": " << line << "\nsockets are those of base/ipc/socket.h";
  });
  EXPECT_GT(seen, 10) << "the scan does not see the calls";
}

// A wall clock that is set while a rank waits would end the wait, or prolong it by hours.
TEST(ArrowsTest, WaitsUseTheSteadyClock) {
  const std::map<std::string, std::string> exceptions = {
      {"bench/machine.cc", "the date of a report"},
      {"bench/shrink_main.cc", "a time that the script compares with its own"},
      {"collectives/flight/flight_clock.cc", "times since 1970, for readers on another host"},
      {"collectives/flight/flight_folder.cc", "ages of files"},
      {"collectives/flight/recorder_test.cc", "ages of files"},
      {"collectives/testing/odd_host.cc", "replaces the wall clock"},
      {"collectives/tests/unlike_hosts_test.cc", "a wall clock that is set"},
      {"conformance/waivers.cc", "the day on which a waiver expires"}};
  Set seen;
  for_each_line([&](const std::string& file, const std::string& line) {
    if (!has_any(line, {"system_clock", "high_resolution_clock", "CLOCK_REALTIME", "gettimeofday",
                        "timespec_get", "time(nullptr)", "time(NULL)", "time(0)", "timedwait(",
                        "timedlock("})) {
      return;
    }
    EXPECT_TRUE(exceptions.count(file) != 0) << file << ": " << line << "\nwaits and deadlines "
                                             << "use std::chrono::steady_clock (core/deadline.h)";
    seen.insert(file);
  });
  EXPECT_EQ(seen.size(), exceptions.size()) << "the scan does not see a file of the list";
}

// Hosts of one job may have pages of different sizes: no message, segment or part depends on them.
TEST(ArrowsTest, PageSizeDecidesNothingBetweenRanks) {
  int seen = 0;
  for_each_line([&](const std::string& file, const std::string& line) {
    if (!has_any(line, {"PAGESIZE", "PAGE_SIZE", "getpagesize"}) || is_test(file)) return;
    const std::string folder = folder_of(file);
    if (folder != "collectives" && folder != "core" && folder != "base/ipc") return;
    ++seen;
    EXPECT_EQ(file, "core/mapped_memory.cc") << line << "\nasks for the page size";
  });
  EXPECT_EQ(seen, 1) << "the scan does not see the call";
}

TEST(ArrowsTest, SystemSocketIsCaught) {
  for (const char* line :
       {"#include <netdb.h>", "  if (socketpair(AF_UNIX, type, 0, ends) != 0) return;",
        "  const int made = ::socket(AF_INET, SOCK_STREAM, 0);",
        "  got = recvmsg(fd, &message, 0);",
        "  return ::setsockopt(fd, level, option, &on, sizeof(on));"}) {
    EXPECT_TRUE(uses_system_sockets(line)) << line;
  }
  for (const char* line :
       {"#include <poll.h>", "  sockets::listen(address, type, &socket);", "void Link::send(int) {",
        "  channel->send(message);", "  keel::sockets::get_option(fd, a, b, &value);"}) {
    EXPECT_FALSE(uses_system_sockets(line)) << line;
  }
}

// Whether |line| forks, starts a program or becomes one.
bool starts_process(const std::string& line, bool in_test) {
  // Tests fork to test forks, and run commands by the shell.
  static const std::regex pattern(
      R"((^|[^\w.>:])(::)?(v?fork|posix_spawnp?|f?execl?v?p?e?|popen)\(|\bstd::system\()");
  static const std::regex of_tests(R"((^|[^\w.>:])(::)?posix_spawnp?\()");
  static constexpr std::initializer_list<const char*> kPieces = {"fork(", "spawn", "exec", "popen(",
                                                                 "std::system("};
  if (!has_any(line, kPieces)) return false;
  return std::regex_search(line, in_test ? of_tests : pattern);
}

// Descriptors, groups, deadlines and reaping are handled in base/ipc/process.
TEST(ArrowsTest, ProcessesAreStartedInOnePlace) {
  const std::map<std::string, std::string> exceptions = {
      {"bench/peers/ranks.cc", "ranks of another library: forks, and starts no program"},
      {"conformance/faulty/leaves_process.cc", "a plugin, which sees the vendor side alone"},
      {"conformance/here.cc", "becomes the debugger"},
      {"fuzz/silent_peer.cc", "forks, and starts no program"},
      {"tools/local_job.cc", "between fork and exec: binds cores, dies with its parent"}};
  int seen = 0;
  for_each_line([&](const std::string& file, const std::string& line) {
    if (line.find_first_not_of(' ') == line.find("//")) return;
    if (!starts_process(line, is_test(file))) return;
    const bool is_launcher = file == "base/ipc/process.cc";
    if (is_launcher) ++seen;
    EXPECT_TRUE(is_launcher || exceptions.count(file) != 0)
        << file << ": " << line << "\nprocesses are those of base/ipc/process.h";
  });
  EXPECT_GT(seen, 0) << "the scan does not see the launcher";
}

TEST(ArrowsTest, AnotherLauncherIsCaught) {
  for (const char* line :
       {"  const pid_t child = fork();", "  const int error = posix_spawnp(&pid, program);",
        "  execvp(arguments[0], arguments);", "  execve(path, arguments, variables);",
        "  FILE* const run = popen(command, mode);", "  return std::system(command);"}) {
    EXPECT_TRUE(starts_process(line, /*in_test=*/false)) << line;
  }
  EXPECT_TRUE(starts_process("  posix_spawn(&pid, program);", /*in_test=*/true));
  for (const char* line :
       {"  if (process.start(options) != 0) fail();", "  after_fork();", "  executor.exec(call);",
        "  const auto error = std::system_error(code);", "  keel_test_fork();"}) {
    EXPECT_FALSE(starts_process(line, /*in_test=*/false)) << line;
  }
  EXPECT_FALSE(starts_process("  const pid_t child = fork();", /*in_test=*/true));
}

}  // namespace
