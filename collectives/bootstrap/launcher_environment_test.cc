// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/launcher_environment.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {
namespace {

using Variables = std::map<std::string, std::string>;

Variables operator+(Variables one, const Variables& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}
Variables operator-(Variables one, const std::string& name) {
  one.erase(name);
  return one;
}

const Variables kKeel = {{"KEEL_RANK", "5"},
                         {"KEEL_WORLD", "8"},
                         {"KEEL_LOCAL_RANK", "1"},
                         {"KEEL_LOCAL_WORLD", "4"},
                         {"KEEL_BOOTSTRAP", "today's"}};
const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "localhost"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};
// As set by Open MPI 4.1's mpiexec.
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"OMPI_MCA_ess_base_jobid", "499515393"},
                            {"PMIX_NAMESPACE", "499515393"}};
// As set by MPICH 4.0's mpiexec.
const Variables kMpich = {{"PMI_RANK", "1"},        {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"}, {"PMI_FD", "8"},   {"HYDI_CONTROL_FD", "7"}};
const Variables kSlurm = {{"SLURM_PROCID", "6"},
                          {"SLURM_NTASKS", "11"},
                          {"SLURM_LOCALID", "2"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"}};
// Rank 0 of a four-task step that owns the terminal: srun --pty -n 4.
const Variables kSlurmTerminal = {{"SLURM_PROCID", "0"},         {"SLURM_NTASKS", "4"},
                                  {"SLURM_LOCALID", "0"},        {"SLURM_NODEID", "0"},
                                  {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "4"},
                                  {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"},
                                  {"SLURM_PTY_PORT", "40123"},   {"SLURM_TASK_PID", "500"}};

const struct {
  Variables variables;
  std::string launcher;
  std::string numbers;
  // The set is incomplete without any one of these variables.
  std::vector<std::string> needed;
} kLaunchers[] = {
    {kKeel,
     "keel run",
     "5 of 8, 1 of 4 here",
     {"KEEL_RANK", "KEEL_WORLD", "KEEL_LOCAL_RANK", "KEEL_LOCAL_WORLD", "KEEL_BOOTSTRAP"}},
    {kTorchrun,
     "torchrun",
     "3 of 4, 1 of 2 here",
     {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"}},
    {kOpenMpi - "PMIX_NAMESPACE",
     "Open MPI",
     "1 of 2, 1 of 2 here",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_ess_base_jobid"}},
    {kMpich,
     "MPICH",
     "1 of 2, 1 of 2 here",
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
    {kSlurm,
     "Slurm",
     "6 of 11, 2 of 4 here",
     {"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID",
      "SLURM_STEP_ID"}}};

constexpr const char* kTask = "1234";  // the reading process, or its process group

struct Read {
  Status status;
  keel_launch_info info = KEEL_STRUCT_INIT(keel_launch_info, 0);
  std::string name;
  std::vector<std::string> warnings;
  std::string numbers() const {
    return fmt::format("{} of {}, {} of {} here", info.rank, info.world, info.local_rank,
                       info.local_world);
  }
};

Read read(const Variables& variables) {
  Read result;
  LauncherEnvironment environment;
  environment.variable = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  environment.starter = [](const char* socket, std::string* out_name) {
    *out_name = std::string("starter of ") + (socket == nullptr ? "nothing" : socket);
    return Status();
  };
  environment.is_of_task = [](const char* pid) { return std::string(pid) == kTask; };
  environment.warn = [&](const std::string& text) { result.warnings.push_back(text); };
  result.status = read_launcher(environment, &result.info, &result.name);
  return result;
}

// Expects that |variables| are refused, with |part| in the reason.
void expect_refused(const Variables& variables, const std::string& part) {
  const Read result = read(variables);
  EXPECT_EQ(result.status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(result.status.text()).find(part), std::string::npos)
      << part << " is not in: " << result.status.text();
}

// Expects no launcher for |variables| and a warning with |part|; no warning if |part| is empty.
void expect_alone(const Variables& variables, const std::string& part) {
  const Read result = read(variables);
  EXPECT_EQ(result.status.code(), KEEL_NOT_FOUND) << part;
  if (part.empty()) {
    EXPECT_TRUE(result.warnings.empty()) << result.warnings[0];
    return;
  }
  ASSERT_EQ(result.warnings.size(), 1u) << part;
  EXPECT_NE(result.warnings[0].find(part), std::string::npos) << part << ": " << result.warnings[0];
  EXPECT_NE(std::string(result.status.text()).find(part), std::string::npos)
      << part << ": " << result.status.text();
}

TEST(LauncherEnvironmentTest, EachLauncher) {
  Variables all = {{"HOME", "/root"}};
  for (auto each = std::rbegin(kLaunchers); each != std::rend(kLaunchers); ++each) {
    const Read alone = read(each->variables);
    ASSERT_TRUE(alone.status.ok()) << alone.status.text();
    EXPECT_EQ(alone.info.launcher, each->launcher);
    EXPECT_EQ(alone.numbers(), each->numbers);
    // The launcher precedes each launcher behind it, and all of them together.
    for (auto behind = std::rbegin(kLaunchers); behind != each; ++behind) {
      EXPECT_EQ(read(behind->variables + each->variables).info.launcher, each->launcher);
    }
    all = all + each->variables;
    const Read among_others = read(all);
    ASSERT_TRUE(among_others.status.ok()) << among_others.status.text();
    EXPECT_EQ(among_others.info.launcher, each->launcher);
    EXPECT_EQ(among_others.name, alone.name);
  }
}

// Regardless of order: a Kubernetes pod has RANK and WORLD_SIZE, and a shell may export any
// variable.
TEST(LauncherEnvironmentTest, CompleteSetWinsOverStrayVariables) {
  for (const auto& complete : kLaunchers) {
    for (const auto& stray : kLaunchers) {
      if (stray.launcher == complete.launcher) continue;
      for (const std::string& missing : stray.needed) {
        const Read result = read((stray.variables - missing) + complete.variables);
        ASSERT_TRUE(result.status.ok()) << missing << ": " << result.status.text();
        EXPECT_EQ(result.info.launcher, complete.launcher) << missing;
        EXPECT_EQ(result.numbers(), complete.numbers) << missing;
        EXPECT_TRUE(result.warnings.empty()) << missing;
      }
    }
    for (const char* stray : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
      if (complete.launcher == "torchrun") continue;
      // Never read, so the value need not be a number.
      for (const char* value : {"0", "4", "worker-0"}) {
        EXPECT_EQ(read(complete.variables + Variables{{stray, value}}).info.launcher,
                  complete.launcher)
            << stray;
      }
    }
  }
}

TEST(LauncherEnvironmentTest, WithoutALauncher) {
  EXPECT_EQ(read({}).status.code(), KEEL_NOT_FOUND);
  // Typical shell variables: of a Slurm allocation, and of a manual network setup.
  EXPECT_EQ(read({{"SLURM_JOB_ID", "77"},
                  {"SLURM_NTASKS", "4"},
                  {"MASTER_ADDR", "localhost"},
                  {"MASTER_PORT", "29500"},
                  {"KEEL_TIMEOUT", "9"}})
                .status.code(),
            KEEL_NOT_FOUND);
  EXPECT_EQ(read({{"RANK", ""}}).status.code(), KEEL_NOT_FOUND);
}

TEST(LauncherEnvironmentTest, IncompleteSetIsNoneAndNamesWhatIsMissing) {
  for (const auto& each : kLaunchers) {
    for (const std::string& missing : each.needed) {
      const Read result = read(each.variables - missing);
      EXPECT_EQ(result.status.code(), KEEL_NOT_FOUND) << missing;
      ASSERT_EQ(result.warnings.size(), 1u) << missing;
      const std::string& text = result.warnings[0];
      EXPECT_NE(text.find(each.launcher), std::string::npos) << text;
      const size_t set = text.find(" set and ");
      ASSERT_NE(set, std::string::npos) << text;
      EXPECT_NE(text.find(missing, set), std::string::npos) << text;
    }
  }
  expect_alone(
      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "29500"}},
      "of the variables of torchrun, RANK, WORLD_SIZE, MASTER_PORT are set and LOCAL_RANK, "
      "LOCAL_WORLD_SIZE are not");
  expect_alone({{"RANK", "worker-0"}}, "RANK is set and WORLD_SIZE, LOCAL_RANK");
  expect_alone(kOpenMpi - "PMIX_NAMESPACE" - "OMPI_MCA_ess_base_jobid",
               "PMIX_NAMESPACE or OMPI_MCA_ess_base_jobid is not");
  // Two incomplete sets: the warning names both.
  const Variables two = (kMpich - "PMI_SIZE") + (kTorchrun - "LOCAL_RANK");
  expect_alone(two, "LOCAL_RANK is not");
  expect_alone(two, "PMI_SIZE is not");
}

// Shells to which Slurm gives a task's variables, but which are no task of the job.
TEST(LauncherEnvironmentTest, SlurmsShellsAreNoRank) {
  expect_alone(kSlurmTerminal, "Slurm runs this process in the shell of srun --pty");
  expect_alone(kSlurmTerminal, "not as one of 4 tasks");
  // salloc: with the job's number of tasks, which may be missing.
  const Variables salloc = kSlurmTerminal + Variables{{"SLURM_STEP_ID", "4294967290"},
                                                      {"SLURM_STEP_NUM_TASKS", "1"},
                                                      {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  expect_alone(salloc, "an interactive step (SLURM_STEP_ID=4294967290), not as one of 4 tasks");
  expect_alone(salloc - "SLURM_PTY_PORT", "an interactive step");
  expect_alone(salloc - "SLURM_NTASKS", "");
  // The script of a batch job.
  const Variables script = {{"SLURM_PROCID", "0"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_JOB_ID", "77"},
                            {"SLURM_TASKS_PER_NODE", "4"}};
  expect_alone(script, "the script of a batch job");
  // With one task the user wanted a single process.
  expect_alone(script + Variables{{"SLURM_NTASKS", "1"}}, "");
  expect_alone(kSlurmTerminal + Variables{{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}},
               "");
}

TEST(LauncherEnvironmentTest, RanksWithATerminalAreRanks) {
  const auto numbers = [](const Variables& variables) {
    const Read result = read(variables);
    EXPECT_TRUE(result.status.ok()) << result.status.text();
    EXPECT_TRUE(result.warnings.empty());
    return result.numbers();
  };
  // srun --pty -n 4 PROGRAM; also srun in a shell that has its own SLURM_PTY_PORT.
  EXPECT_EQ(numbers(kSlurmTerminal + Variables{{"SLURM_TASK_PID", kTask}}), "0 of 4, 0 of 4 here");
  EXPECT_EQ(numbers(kSlurmTerminal + Variables{{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "3"}}),
            "3 of 4, 3 of 4 here");
}

TEST(LauncherEnvironmentTest, SlurmStepMayBeSmallerThanItsJob) {
  const Read result =
      read(kSlurmTerminal - "SLURM_PTY_PORT" +
           Variables{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  ASSERT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_EQ(result.numbers(), "0 of 1, 0 of 1 here");
}

TEST(LauncherEnvironmentTest, HintNamesWhatToUnset) {
  const auto hint = [](const Variables& variables) {
    const Read result = read(variables);
    EXPECT_TRUE(result.status.ok()) << result.status.text();
    return launcher_hint(result.info);
  };
  EXPECT_EQ(hint(kSlurm),
            "this process is rank 6 of 11 by the environment variables of Slurm; if Slurm did not "
            "start all of them, unset SLURM_PROCID");
  for (const auto& each : kLaunchers) {
    const std::string text = hint(each.variables);
    // Without the variables named by the hint there is no launcher and no warning.
    Variables without = each.variables;
    std::istringstream names(text.substr(text.find("unset ") + 6));
    for (std::string name; names >> name;) without = without - name;
    expect_alone(without, "");
  }
}

TEST(LauncherEnvironmentTest, NumbersThatAreNone) {
  for (const char* value : {"x", "-1", "1x", " 1", "+1", "4294967296", "0x1", "1.0"}) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
      expect_refused(kTorchrun + Variables{{name, value}}, std::string(name) + "=" + value + " ");
    }
    expect_refused(kSlurm + Variables{{"SLURM_NODEID", value}},
                   std::string("SLURM_NODEID=") + value);
  }
}

TEST(LauncherEnvironmentTest, NumbersThatDoNotFit) {
  expect_refused(kKeel + Variables{{"KEEL_RANK", "8"}}, "KEEL_RANK=8 does not fit KEEL_WORLD=8");
  expect_refused(kKeel + Variables{{"KEEL_WORLD", "0"}}, "KEEL_WORLD=0");
  expect_refused(kTorchrun + Variables{{"LOCAL_RANK", "2"}},
                 "LOCAL_RANK=2 does not fit LOCAL_WORLD_SIZE=2");
  expect_refused(kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
                 "OMPI_COMM_WORLD_LOCAL_SIZE=3 does not fit OMPI_COMM_WORLD_SIZE=2");
  expect_refused(kSlurm + Variables{{"SLURM_LOCALID", "4"}},
                 "SLURM_LOCALID=4 does not fit SLURM_STEP_TASKS_PER_NODE=4");
}

TEST(LauncherEnvironmentTest, TasksOfSlurmsNodes) {
  const struct {
    const char* list;
    const char* node;
    const char* numbers;  // NULL: refused
  } cases[] = {{"11", "0", "6 of 11, 2 of 11 here"},
               {"4(x2),3", "0", "6 of 11, 2 of 4 here"},
               {"4(x2),3", "2", "6 of 11, 2 of 3 here"},
               {"1,7,3", "1", "6 of 11, 2 of 7 here"},
               {"4(x2),3", "3", nullptr},
               {"4(x2", "0", nullptr},
               {"4(x),3", "0", nullptr},
               {"(x2)", "0", nullptr},
               {"4(x2)3", "0", nullptr},
               {",4", "0", nullptr},
               {"4(x4294967295),3(x4294967295)", "4294967295", "6 of 11, 2 of 3 here"},
               {"many", "0", nullptr}};
  for (const auto& each : cases) {
    const Variables variables =
        kSlurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", each.list}, {"SLURM_NODEID", each.node}};
    if (each.numbers == nullptr) {
      expect_refused(variables, std::string("SLURM_STEP_TASKS_PER_NODE=") + each.list);
    } else {
      const Read result = read(variables);
      EXPECT_TRUE(result.status.ok()) << result.status.text();
      EXPECT_EQ(result.numbers(), each.numbers) << each.list;
    }
  }
  const Read older =
      read(kSlurm - "SLURM_STEP_TASKS_PER_NODE" + Variables{{"SLURM_NTASKS_PER_NODE", "5"}});
  EXPECT_TRUE(older.status.ok()) << older.status.text();
  EXPECT_EQ(older.numbers(), "6 of 11, 2 of 5 here");
}

TEST(LauncherEnvironmentTest, SlurmsOwnPmiIsSlurm) {
  const Read result = read(
      kSlurm +
      Variables{{"PMI_RANK", "6"}, {"PMI_SIZE", "11"}, {"PMI_FD", "9"}, {"PMI_JOBID", "77.0"}});
  ASSERT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_STREQ(result.info.launcher, "Slurm");
}

TEST(LauncherEnvironmentTest, OldNameOfBootstrapIsReadWithWarning) {
  const Read result = read(kKeel - "KEEL_BOOTSTRAP" + Variables{{"KEEL_MEETING", "today's"}});
  ASSERT_TRUE(result.status.ok()) << result.status.text();
  EXPECT_EQ(result.name, read(kKeel).name);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("set KEEL_BOOTSTRAP"), std::string::npos) << result.warnings[0];
  EXPECT_TRUE(read(kKeel).warnings.empty());
}

TEST(LauncherEnvironmentTest, ANameForEachJob) {
  const auto name = [](const Variables& variables) {
    const Read result = read(variables);
    EXPECT_TRUE(result.status.ok()) << result.status.text();
    return result.name;
  };
  // Equal for all ranks of a job, different between jobs.
  EXPECT_EQ(name(kKeel), name(kKeel + Variables{{"KEEL_RANK", "0"}, {"KEEL_LOCAL_RANK", "0"}}));
  EXPECT_NE(name(kKeel), name(kKeel + Variables{{"KEEL_BOOTSTRAP", "other"}}));
  for (const char* variable :
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    EXPECT_NE(name(kTorchrun), name(kTorchrun + Variables{{variable, "1"}})) << variable;
  }
  EXPECT_EQ(name(kTorchrun), name(kTorchrun + Variables{{"RANK", "0"}, {"LOCAL_RANK", "0"}}));
  EXPECT_NE(name(kOpenMpi), name(kOpenMpi + Variables{{"PMIX_NAMESPACE", "1"}}));
  EXPECT_NE(name(kOpenMpi - "PMIX_NAMESPACE"),
            name(kOpenMpi - "PMIX_NAMESPACE" + Variables{{"OMPI_MCA_ess_base_jobid", "1"}}));
  EXPECT_NE(name(kSlurm), name(kSlurm + Variables{{"SLURM_JOB_ID", "78"}}));
  EXPECT_NE(name(kSlurm), name(kSlurm + Variables{{"SLURM_STEP_ID", "1"}}));
  EXPECT_EQ(name(kMpich), "MPICH:starter of 8");
  EXPECT_EQ(name(kMpich - "PMI_FD"), "MPICH:starter of nothing");
  EXPECT_EQ(name(kMpich + Variables{{"PMI_JOBID", "9"}}), "MPICH:9");
  EXPECT_EQ(name(kMpich + Variables{{"PMI_PORT", "host:40"}}), "MPICH:host:40");
}

TEST(LauncherEnvironmentTest, TheHeaderStays) {
  keel_launch_info info = {};
  info.header = {sizeof(info), 42, nullptr};
  std::string name;
  LauncherEnvironment environment;
  environment.variable = [](const char* variable) -> const char* {
    const auto found = kKeel.find(variable);
    return found == kKeel.end() ? nullptr : found->second.c_str();
  };
  ASSERT_TRUE(read_launcher(environment, &info, &name).ok());
  EXPECT_EQ(info.header.type, 42u);
  EXPECT_EQ(info.header.size, sizeof(info));
}

// Under Hydra's variables: prints the job name read from the real environment.
int name_worker(const std::vector<std::string>& arguments) {
  for (const char* name : {"KEEL_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : kMpich) setenv(name.c_str(), value.c_str(), 1);
  setenv("PMI_FD", arguments[0].c_str(), 1);
  keel_launch_info info = {};
  std::string name;
  const Status status = read_launcher(&info, &name);
  say(status.ok() ? name : status.text());
  return 0;
}

TEST(LauncherEnvironmentTest, HydrasProcessNamesTheJob) {
  uint64_t start_time = 0;
  ASSERT_TRUE(process_start_time(getpid(), &start_time).ok());
  const std::string expected = fmt::format("MPICH:{}-{}", getpid(), start_time);
  // A socket pair identifies the starter, as with Hydra; an invalid descriptor selects the parent.
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const FileDescriptor here(pair[0]);
  const FileDescriptor there(pair[1]);  // inherited: no CLOEXEC
  for (const std::string& fd :
       {std::to_string(there.get()), std::string("1"), std::string("900"), std::string("x")}) {
    ChildProcess child("name", {fd});
    EXPECT_EQ(child.read_line(), expected) << fd;
    EXPECT_EQ(child.wait(), 0);
  }
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"name", name_worker}};
  return all;
}

}  // namespace keel::testing
