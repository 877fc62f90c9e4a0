// SPDX-License-Identifier: Apache-2.0
#include "conformance/here.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "conformance/catalogue.h"
#include "conformance/harness.h"
#include "conformance/levels.h"
#include "conformance/library_faults.h"
#include "conformance/session.h"
#include "conformance/validated_body.h"

namespace keel::conformance {

namespace {

// Returns whether the case failed.
bool run_case(const Environment& environment, const Case& each) {
  fmt::print("run     {}\n", each.id);
  std::fflush(stdout);
  const auto tell = [&](const char* outcome, const std::string& text) {
    fmt::print("{:<8}{}{}{}\n", outcome, each.id, text.empty() ? "" : ": ", text);
    std::fflush(stdout);
  };
  const Ending ending = run_validated(each, Context{environment, each.id});
  switch (ending.how) {
    case BodyEnd::kReturned:
      tell("pass", take_notes());
      return false;
    case BodyEnd::kUnsupported:
      tell("none", "unsupported: " + ending.text);
      return false;
    case BodyEnd::kFailed:
      break;
  }
  tell("fail", ending.text);
  return true;
}

}  // namespace

int run_here(const RunSettings& settings, const std::vector<std::string>& ids, bool fail_fast,
             const std::string& fault) {
  // Load the plugin by its path, where a debugger looks for symbols.
  setenv("KEEL_PLUGINS_BY_PATH", "1", /*overwrite=*/1);
  if (!fault.empty()) add_library_fault(fault);
  auto& environment = *new Environment;  // leaked: plugin threads may still access it
  environment.seed = settings.seed;
  std::string error;
  bool usage = false;
  const bool on_tables = !ids.empty() && is_on_tables(ids.front());
  if (on_tables ? !start_on_tables(settings.choice, settings.path, settings.timeout_seconds,
                                   &environment, &error)
                : !start_environment(settings.choice, settings.timeout_seconds, &environment,
                                     &error, &usage)) {
    fmt::print(stderr, "keel conform: {}\n", error);
    return usage ? kExitUsage : kExitFailed;
  }
  if (!on_tables) keel_op_forbid_fallback(1);
  const auto& cases = *new std::vector<Case>(make_catalogue(environment));
  const CaseIndex index(cases);
  uint32_t run = 0;
  uint32_t failed = 0;
  uint32_t others = 0;
  uint32_t faulty = 0;
  for (const std::string& id : ids) {
    const Case* const found = index.find(id);
    if (is_on_tables(id) != on_tables || found == nullptr) {
      ++others;
    } else if (found->fault != fault) {
      ++faulty;
    } else if (!fail_fast || failed == 0) {
      ++run;
      failed += run_case(environment, *found) ? 1 : 0;
    }
  }
  fmt::print("{} of {} cases failed; nothing is certified by cases in one process\n", failed, run);
  if (run + others + faulty < ids.size()) fmt::print("stopped at the first failure\n");
  if (others != 0) {
    fmt::print(
        "{} cases {} are left out: a process loads a plugin one way; give them alone by "
        "--filter\n",
        others, on_tables ? "through Keel" : "on the plugin's tables");
  }
  if (faulty != 0) {
    fmt::print("{} cases in which the library fails are left out: give one alone by --filter\n",
               faulty);
  }
  std::fflush(stdout);
  if (on_tables) {
    environment.tables.reset();
  } else {
    keel_shutdown();
  }
  return run == ids.size() && run != 0 && failed == 0 ? kExitOk : kExitFailed;
}

int start_debugger(const std::vector<std::string>& arguments) {
  char program[4096] = "";
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0) return kExitFailed;
  std::vector<std::string> command = {"gdb", "-q", "--args", program};
  for (const std::string& argument : arguments) {
    command.push_back(argument == "--gdb" ? "--here" : argument);
  }
  std::vector<char*> pointers;
  for (std::string& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp("gdb", pointers.data());
  fmt::print(stderr, "keel conform: gdb does not start: {}\n", std::strerror(errno));
  return kExitUsage;
}

}  // namespace keel::conformance
