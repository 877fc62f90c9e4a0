// SPDX-License-Identifier: Apache-2.0
// A job with a process for each rank is told once that two of its devices are one chip.
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/testing/child_process.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// Arguments: rank, world, host ("": none given), name of the backend, then its settings in pairs.
// Answers with the warnings that this process logs.
int run_worker(const std::vector<std::string>& arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  if (!arguments[2].empty()) {
    setenv("KEEL_HOST_ID", arguments[2].c_str(), 1);
    setenv("KEEL_INTERFACE", "127.0.0.1", 1);
  }
  const auto rank = static_cast<uint32_t>(std::stoul(arguments[0]));
  const auto world = static_cast<uint32_t>(std::stoul(arguments[1]));
  auto init = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  init.default_timeout_ns = kTestTimeout;
  init.backends = "";
  if (keel_init(&init) != KEEL_OK) return 2;
  std::string warnings;
  keel_set_log(
      KEEL_LOG_WARNING,
      [](void* user, keel_log_level, const char* text) {
        *static_cast<std::string*>(user) += std::string("[") + text + "]";
      },
      &warnings);
  Settings settings = {{"devices", "1"}, {"instance_name", arguments[3]}};
  for (size_t i = 4; i + 1 < arguments.size(); i += 2) settings[arguments[i]] = arguments[i + 1];
  const std::vector<keel_device> devices = load("fake", settings);
  keel_unique_id id = {};
  if (rank == 0) {
    keel_unique_id_create(&id);
    say(id.text);
  } else {
    const std::string text = hear();
    text.copy(id.text, sizeof(id.text) - 1);
  }
  for (int i = 0; i < 2; ++i) {  // a communicator, and one of the same ranks
    keel_comm comm = {};
    if (keel_comm_init_rank(devices.at(0), &id, rank, world, nullptr, &comm) != KEEL_OK) {
      say(keel_last_error());
      return 3;
    }
    keel_comm_destroy(comm);
    if (rank == 0) {
      keel_unique_id_create(&id);
      say(id.text);
    } else {
      const std::string text = hear();
      id = {};
      text.copy(id.text, sizeof(id.text) - 1);
    }
  }
  say(warnings);
  hear();
  keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr);
  keel_shutdown();
  return 0;
}

struct RankOn {
  std::string host;
  std::string backend;
  std::vector<std::string> settings;
};

// Returns the warnings of each rank's process.
std::vector<std::string> warnings_of(const std::vector<RankOn>& ranks,
                                     std::vector<pid_t>* out_pids) {
  std::vector<ChildProcess> children;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string> arguments = {std::to_string(rank), std::to_string(ranks.size()),
                                          ranks[rank].host, ranks[rank].backend};
    arguments.insert(arguments.end(), ranks[rank].settings.begin(), ranks[rank].settings.end());
    out_pids->push_back(children.emplace_back("rank", arguments).pid());
  }
  for (int i = 0; i < 3; ++i) {  // the last one is not used
    const std::string id = children[0].read_line();
    for (size_t rank = 1; rank < children.size(); ++rank) children[rank].write_line(id);
  }
  std::vector<std::string> warnings;
  for (ChildProcess& child : children) warnings.push_back(child.read_line());
  for (ChildProcess& child : children) child.write_line("end");
  for (ChildProcess& child : children) EXPECT_EQ(child.wait(), 0);
  return warnings;
}

// By PCI address, as one vendor and another write it. The third rank drives another chip, the
// fourth this one again, the last an unknown one.
TEST(SharedChipProcessesTest, RanksOfTwoBackendsAreNamedOnceInTheJob) {
  std::vector<pid_t> pids;
  const std::vector<std::string> said =
      warnings_of({{"", "one", {"pci_bus", "59"}},
                   {"", "two", {"pci_bus", "59", "pci_style", "1"}},
                   {"", "two", {"pci_bus", "60"}},
                   {"", "two", {"pci_bus", "59"}},
                   {"", "two", {}}},
                  &pids);
  EXPECT_EQ(said[0], "[rank 0 (one:0) and rank 1 (two:0, process " + std::to_string(pids[1]) +
                         ") drive one chip: they share its memory and time]");
  for (size_t rank = 1; rank < said.size(); ++rank) EXPECT_EQ(said[rank], "") << rank;
}

// By UUID. Two hosts of one boot id are two containers on one machine.
TEST(SharedChipProcessesTest, RanksOfTwoContainersAreNamedOnce) {
  std::vector<pid_t> pids;
  const std::vector<std::string> said = warnings_of(
      {{"a", "one", {"uuid", "8"}}, {"a", "one", {"uuid", "9"}}, {"b", "two", {"uuid", "9"}}},
      &pids);
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(said[1], "[rank 1 (one:0, process " + std::to_string(pids[1]) +
                         " on host 'a') and rank 2 (two:0, process " + std::to_string(pids[2]) +
                         " on host 'b') drive one chip: they share its memory and time]");
  EXPECT_EQ(said[2], "");
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"rank", run_worker}};
  return all;
}

}  // namespace keel::testing
