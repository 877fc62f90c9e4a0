// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/testing/scripted_rank.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {

void enter_job(const std::string& rank, const std::string& world, const std::string& rendezvous) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(100);
  setenv("KEEL_RANK", rank.c_str(), 1);
  setenv("KEEL_LOCAL_RANK", rank.c_str(), 1);
  setenv("KEEL_WORLD", world.c_str(), 1);
  setenv("KEEL_LOCAL_WORLD", world.c_str(), 1);
  setenv("KEEL_BOOTSTRAP", rendezvous.c_str(), 1);
}

void answer_commands(const std::function<keel_status(const std::string& command)>& obey) {
  for (std::string command = hear(); !command.empty(); command = hear()) {
    const keel_status status = obey(command);
    std::string text = keel_status_name(status);
    if (status != KEEL_OK) text += std::string(": ") + keel_last_error();
    std::replace(text.begin(), text.end(), '\n', ' ');
    say(text);
  }
}

::testing::AssertionResult says(const std::string& text, const std::string& said) {
  if (said.find(text) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no '" << text << "' in: " << said;
}

}  // namespace keel::testing
