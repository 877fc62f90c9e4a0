// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_contenders.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace keel::bench {

namespace {

namespace fs = std::filesystem;

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string package_to_build(const std::string& library) {
  if (library == "openmpi") return "libopenmpi-dev";
  if (library == "mpich") return "libmpich-dev";
  if (library == "gloo") return "libgloo-dev";
  return "";
}

std::string package_to_run(const std::string& library) {
  return library == "openmpi" ? "openmpi-bin" : library;
}

// Open MPI yields by itself if there are more ranks than cores, which --oversubscribe tells it.
// Binding is off: ranks of all peers bind themselves alike. Dynamic rules allow the peer to choose
// algorithms.
const std::vector<std::string> kOpenMpi = {"mpirun.openmpi",
                                           "--allow-run-as-root",
                                           "--oversubscribe",
                                           "--bind-to",
                                           "none",
                                           "-n",
                                           "%",
                                           "--mca",
                                           "coll_tuned_use_dynamic_rules",
                                           "1"};
// Shared memory, with a single copy straight from the sender's buffer for large messages.
const std::vector<std::string> kVader = {
    "--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism",
    "cma"};
// By default Open MPI 4.1 uses UCX for network cards only.
const std::vector<std::string> kUcx = {
    "--mca",           "pml", "ucx", "--mca",          "pml_ucx_tls", "any", "--mca",
    "pml_ucx_devices", "any", "-x",  "UCX_TLS=self,sm"};

std::vector<std::string> join(std::vector<std::string> first,
                              const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

const char* name_of(Setting setting) {
  switch (setting) {
    case Setting::kProcesses:
      return "processes, Keel's buffers";
    case Setting::kForeign:
      return "processes, foreign buffers";
    case Setting::kThreads:
      return "threads";
  }
  return "";
}

std::vector<std::string> LaunchedContender::command(uint32_t ranks) const {
  std::vector<std::string> words = join(launcher, program);
  for (std::string& word : words) {
    if (word == "%") word = std::to_string(ranks);
  }
  return words;
}

std::vector<LaunchedContender> find_contenders(const std::string& folder) {
  const auto ranks = [](const char* program, std::vector<std::string> more) {
    return join({program, "--ranks", "%"}, more);
  };
  std::vector<LaunchedContender> contenders = {
      {"Open MPI, CMA",
       Side::kPeer,
       Setting::kProcesses,
       "",
       join(kOpenMpi, kVader),
       {"openmpi_peer"},
       "openmpi"},
      {"Keel",
       Side::kKeel,
       Setting::kProcesses,
       "",
       {},
       ranks("keel_peer", {"--mode", "processes"}),
       "keel"},
      {"Open MPI, UCX",
       Side::kPeer,
       Setting::kProcesses,
       "",
       join(kOpenMpi, kUcx),
       {"openmpi_peer"},
       "openmpi"},
      {"Keel, foreign buffers",
       Side::kKeel,
       Setting::kForeign,
       "",
       {},
       ranks("keel_peer", {"--mode", "processes", "--buffers", "foreign"}),
       "keel"},
      {"MPICH",
       Side::kPeer,
       Setting::kProcesses,
       "",
       {"mpirun.mpich", "-n", "%"},
       {"mpich_peer"},
       "mpich"},
      {"direct", Side::kBound, Setting::kThreads, "", {}, ranks("direct_bound", {})},
      {"Gloo",
       Side::kPeer,
       Setting::kProcesses,
       "",
       {},
       ranks("gloo_peer", {"--mode", "processes"}),
       "gloo"},
      {"Keel, threads",
       Side::kKeel,
       Setting::kThreads,
       "",
       {},
       ranks("keel_peer", {"--mode", "threads"}),
       "keel"},
      {"Gloo, threads",
       Side::kPeer,
       Setting::kThreads,
       "",
       {},
       ranks("gloo_peer", {"--mode", "threads"}),
       "gloo"},
  };
  for (LaunchedContender& contender : contenders) {
    const fs::path program = fs::path(folder) / contender.program[0];
    if (access(program.c_str(), X_OK) != 0) {
      contender.missing = program.string() + " is not there";
      const std::string package = package_to_build(contender.library);
      if (!package.empty()) {
        contender.missing += "; it is built where Debian's " + package + " is installed";
      }
    } else if (!contender.launcher.empty() && !is_in_path(contender.launcher[0])) {
      contender.missing = contender.launcher[0] + " is not installed: Debian's " +
                          package_to_run(contender.library);
    }
    contender.program[0] = program;
  }
  return contenders;
}

}  // namespace keel::bench
