// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/launcher_environment.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/log.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

bool parse_number(std::string_view text, uint32_t* out_number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == end;
}

// A variable, or an equivalent alternative.
struct Choice {
  const char* name;
  const char* other = nullptr;
};

// Reads one launcher's variables.
class Variables {
 public:
  Variables(const LauncherEnvironment& environment, const char* launcher)
      : environment_(environment), launcher_(launcher) {}

  // Returns NULL for an unset or empty variable.
  const char* find(const char* name) const {
    const char* value = environment_.variable(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  }
  bool has(const Choice& choice) const {
    return find(choice.name) != nullptr ||
           (choice.other != nullptr && find(choice.other) != nullptr);
  }
  bool has_any(std::span<const char* const> names) const {
    return std::any_of(names.begin(), names.end(),
                       [this](const char* name) { return has({name}); });
  }
  // Returns KEEL_NOT_FOUND, naming all missing |choices|. Call before reading values: a stray
  // variable may have any value.
  Status complete(std::initializer_list<Choice> choices) const {
    std::vector<std::string> set;
    std::vector<std::string> missing;
    for (const Choice& choice : choices) {
      if (!has(choice)) {
        missing.emplace_back(choice.name);
        if (choice.other != nullptr) missing.back() += std::string(" or ") + choice.other;
      } else {
        set.emplace_back(find(choice.name) != nullptr ? choice.name : choice.other);
      }
    }
    if (missing.empty()) return {};
    return failure(KEEL_NOT_FOUND, "of the variables of {}, {} {} set and {} {} not", launcher_,
                   fmt::join(set, ", "), set.size() == 1 ? "is" : "are", fmt::join(missing, ", "),
                   missing.size() == 1 ? "is" : "are");
  }
  // Parses a variable that is set.
  Status number(const char* name, uint32_t* out_number) const {
    const char* value = find(name);
    if (value == nullptr || !parse_number(value, out_number)) {
      return failure(KEEL_INVALID_ARGUMENT, "{}={} is no number from 0 to {}", name,
                     value == nullptr ? "" : value, UINT32_MAX);
    }
    return {};
  }
  // Appends a colon and the value, if any.
  void append(const char* name, std::string* in_out_text) const {
    const char* value = find(name);
    *in_out_text += ':';
    if (value != nullptr) *in_out_text += value;
  }

 private:
  const LauncherEnvironment& environment_;
  const char* const launcher_;
};

// Variables of rank and world, in the job and on this host.
struct Names {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
};

Status check_fits(const char* small_name, uint32_t small, const char* large_name, uint32_t large,
                  bool may_be_equal) {
  if (small < large || (may_be_equal && small == large)) return {};
  return failure(KEEL_INVALID_ARGUMENT, "{}={} does not fit {}={}", small_name, small, large_name,
                 large);
}

Status check(const Names& names, const keel_launch_info& info) {
  KEEL_RETURN_IF_ERROR(check_fits(names.rank, info.rank, names.world, info.world, false));
  KEEL_RETURN_IF_ERROR(
      check_fits(names.local_rank, info.local_rank, names.local_world, info.local_world, false));
  return check_fits(names.local_world, info.local_world, names.world, info.world, true);
}

Status read_numbers(const Variables& variables, const Names& names, keel_launch_info* out_info) {
  KEEL_RETURN_IF_ERROR(variables.number(names.rank, &out_info->rank));
  KEEL_RETURN_IF_ERROR(variables.number(names.world, &out_info->world));
  KEEL_RETURN_IF_ERROR(variables.number(names.local_rank, &out_info->local_rank));
  KEEL_RETURN_IF_ERROR(variables.number(names.local_world, &out_info->local_world));
  return check(names, *out_info);
}

// Called when one of the launcher's variables is set. KEEL_NOT_FOUND when the launcher has not
// started this process as a rank; a non-empty text is for the user. The string holds the launcher's
// name, to which the function appends the job's.
using Read = Status (*)(const LauncherEnvironment&, const Variables&, keel_launch_info*,
                        std::string*);

constexpr const char* kKeelNames[] = {"KEEL_RANK",        "KEEL_WORLD",     "KEEL_LOCAL_RANK",
                                      "KEEL_LOCAL_WORLD", "KEEL_BOOTSTRAP", "KEEL_MEETING"};

Status read_keel(const LauncherEnvironment& environment, const Variables& variables,
                 keel_launch_info* out_info, std::string* in_out_name) {
  constexpr const char* kName = "KEEL_BOOTSTRAP";
  constexpr const char* kOldName = "KEEL_MEETING";
  constexpr Names kNames = {"KEEL_RANK", "KEEL_WORLD", "KEEL_LOCAL_RANK", "KEEL_LOCAL_WORLD"};
  KEEL_RETURN_IF_ERROR(variables.complete({{kNames.rank},
                                           {kNames.world},
                                           {kNames.local_rank},
                                           {kNames.local_world},
                                           {kName, kOldName}}));
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  if (variables.find(kName) == nullptr) {
    environment.warn("KEEL_MEETING is read for one more release: set KEEL_BOOTSTRAP");
    variables.append(kOldName, in_out_name);
  } else {
    variables.append(kName, in_out_name);
  }
  return {};
}

constexpr const char* kTorchrunNames[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

Status read_torchrun(const LauncherEnvironment&, const Variables& variables,
                     keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  KEEL_RETURN_IF_ERROR(variables.complete(
      {{kNames.rank}, {kNames.world}, {kNames.local_rank}, {kNames.local_world}, {"MASTER_PORT"}}));
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  // Processes that torchrun restarts after a failure use a new rendezvous.
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    variables.append(name, in_out_name);
  }
  return {};
}

constexpr const char* kOpenMpiNames[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE"};

Status read_open_mpi(const LauncherEnvironment&, const Variables& variables,
                     keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
  // PMIX_NAMESPACE: Open MPI 4 and 5; the alternative: earlier versions.
  constexpr Choice kJob = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
  KEEL_RETURN_IF_ERROR(variables.complete(
      {{kNames.rank}, {kNames.world}, {kNames.local_rank}, {kNames.local_world}, kJob}));
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  variables.append(variables.find(kJob.name) != nullptr ? kJob.name : kJob.other, in_out_name);
  return {};
}

constexpr const char* kMpichNames[] = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                       "MPI_LOCALNRANKS"};

Status read_mpich(const LauncherEnvironment& environment, const Variables& variables,
                  keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  // srun --mpi=pmi2 sets PMI's variables beside its own, but none of Hydra's.
  if (!variables.has({kNames.local_rank, kNames.local_world}) && variables.has({"SLURM_PROCID"})) {
    return Status(KEEL_NOT_FOUND, "");
  }
  KEEL_RETURN_IF_ERROR(variables.complete(
      {{kNames.rank}, {kNames.world}, {kNames.local_rank}, {kNames.local_world}}));
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  for (const char* name : {"PMI_JOBID", "PMI_PORT"}) {
    if (variables.find(name) == nullptr) continue;
    variables.append(name, in_out_name);
    return {};
  }
  std::string starter;
  const Status found = environment.starter(variables.find("PMI_FD"), &starter);
  if (!found.ok()) {
    return failure(KEEL_UNAVAILABLE, "PMI_JOBID and PMI_PORT are not set, and of Hydra: {}",
                   found.text());
  }
  *in_out_name += ':' + starter;
  return {};
}

// Number of tasks of node |node| in "4(x2),3": two nodes of four, one of three.
bool tasks_of_node(std::string_view list, uint32_t node, uint32_t* out_tasks) {
  uint64_t first = 0;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    std::string_view run = list.substr(0, comma);
    uint32_t times = 1;
    const size_t open = run.find("(x");
    if (open != std::string_view::npos) {
      if (!run.ends_with(')') || !parse_number(run.substr(open + 2, run.size() - open - 3), &times))
        return false;
      run = run.substr(0, open);
    }
    uint32_t tasks = 0;
    if (!parse_number(run, &tasks)) return false;
    if (node >= first && node < first + times) {
      *out_tasks = tasks;
      return true;
    }
    first += times;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// Slurm's remaining variables also exist in the shell of an allocation, which is no task.
constexpr const char* kSlurmNames[] = {"SLURM_PROCID"};

// Names the context of a process that has the variables of rank 0, but is no rank started by srun;
// empty for a rank. Slurm sets SLURM_PROCID in all of these contexts:
//  - the script of a batch job, which is in no step;
//  - the shell of salloc (LaunchParameters=use_interactive_step) and Slurm's own steps, numbered
//    4294967280 and above (4294967290), beside the job's SLURM_NTASKS;
//  - the shell of srun --pty, where the shells of the remaining ranks have ended. A program that
//    srun --pty starts directly is a rank: the task's process, or in its process group, to which
//    a shell with job control adds no program. The shell's own srun leaves SLURM_PTY_PORT to its
//    ranks and sets SLURM_TASK_PID anew.
std::string slurm_shell(const LauncherEnvironment& environment, const Variables& variables) {
  constexpr uint32_t kFirstOwnStep = 0xfffffff0;
  const char* const step = variables.find("SLURM_STEP_ID");
  if (step == nullptr) {
    const bool is_script = !variables.has({"SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"});
    return is_script ? "the script of a batch job (SLURM_STEP_ID is not set)" : "";
  }
  uint32_t number = 0;
  if (parse_number(step, &number) && number >= kFirstOwnStep) {
    return fmt::format("an interactive step (SLURM_STEP_ID={})", step);
  }
  const char* const rank = variables.find("SLURM_PROCID");
  const char* const task = variables.find("SLURM_TASK_PID");
  if (!variables.has({"SLURM_PTY_PORT"}) || std::string_view(rank) != "0") return {};
  if (task != nullptr && environment.is_of_task(task)) return {};
  return "the shell of srun --pty (SLURM_PTY_PORT is set)";
}

Status read_slurm(const LauncherEnvironment& environment, const Variables& variables,
                  keel_launch_info* out_info, std::string* in_out_name) {
  constexpr const char* kPerNode = "SLURM_STEP_TASKS_PER_NODE";
  // A step may be smaller than the job: srun --preserve-env keeps the job's SLURM_NTASKS.
  constexpr const char* kStepWorld = "SLURM_STEP_NUM_TASKS";
  Names names = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"};
  const std::string shell = slurm_shell(environment, variables);
  if (!shell.empty()) {
    // With one task, running as a single process is what the user wants.
    uint32_t tasks = 0;
    const char* const text = variables.find(names.world);
    if (text == nullptr || !parse_number(text, &tasks) || tasks < 2) {
      return Status(KEEL_NOT_FOUND, "");
    }
    return failure(KEEL_NOT_FOUND,
                   "Slurm runs this process in {}, not as one of {} tasks, which srun starts",
                   shell, tasks);
  }
  KEEL_RETURN_IF_ERROR(variables.complete({{names.rank},
                                           {names.world, kStepWorld},
                                           {names.local_rank},
                                           {kPerNode, names.local_world},
                                           {"SLURM_JOB_ID"},
                                           {"SLURM_STEP_ID"}}));
  if (variables.has({kStepWorld})) names.world = kStepWorld;
  KEEL_RETURN_IF_ERROR(variables.number(names.rank, &out_info->rank));
  KEEL_RETURN_IF_ERROR(variables.number(names.world, &out_info->world));
  KEEL_RETURN_IF_ERROR(variables.number(names.local_rank, &out_info->local_rank));
  const char* per_node = variables.find(kPerNode);
  if (per_node != nullptr) {
    uint32_t node = 0;
    if (variables.has({"SLURM_NODEID"})) {
      KEEL_RETURN_IF_ERROR(variables.number("SLURM_NODEID", &node));
    }
    if (!tasks_of_node(per_node, node, &out_info->local_world)) {
      return failure(KEEL_INVALID_ARGUMENT, "{}={} does not tell the tasks of node {}", kPerNode,
                     per_node, node);
    }
    names.local_world = kPerNode;
  } else {
    KEEL_RETURN_IF_ERROR(variables.number(names.local_world, &out_info->local_world));
  }
  KEEL_RETURN_IF_ERROR(check(names, *out_info));
  variables.append("SLURM_JOB_ID", in_out_name);
  variables.append("SLURM_STEP_ID", in_out_name);
  return {};
}

Status name_of_process(int64_t pid, std::string* out_name) {
  uint64_t start_time = 0;
  KEEL_RETURN_IF_ERROR(process_start_time(pid, &start_time));
  *out_name = fmt::format("{}-{}", pid, start_time);
  return {};
}

// Names the creator of the socket pair, even with scripts between it and this process.
Status find_starter(const char* socket, std::string* out_name) {
  uint32_t number = 0;
  Peer peer;
  if (socket != nullptr && parse_number(socket, &number) && number <= INT32_MAX &&
      sockets::peer_of(static_cast<int>(number), &peer) == 0 && peer.pid > 0) {
    return name_of_process(peer.pid, out_name);
  }
  return name_of_process(getppid(), out_name);
}

bool is_of_task(const char* pid) {
  uint32_t number = 0;
  if (!parse_number(pid, &number)) return false;
  return static_cast<pid_t>(number) == getpid() || static_cast<pid_t>(number) == getpgrp();
}

// Warns once per process, which may read its launcher in several places.
void warn_once(const std::string& text) {
  static std::atomic<bool> has_warned{false};
  if (!has_warned.exchange(true)) log(KEEL_LOG_WARNING, "{}", text);
}

struct Launcher {
  const char* name;
  // At least one must be set for the launcher to be considered.
  std::span<const char* const> variables;
  Read read;
};

constexpr Launcher kLaunchers[] = {{"keel run", kKeelNames, read_keel},
                                   {"torchrun", kTorchrunNames, read_torchrun},
                                   {"Open MPI", kOpenMpiNames, read_open_mpi},
                                   {"MPICH", kMpichNames, read_mpich},
                                   {"Slurm", kSlurmNames, read_slurm}};

}  // namespace

Status read_launcher(const LauncherEnvironment& environment, keel_launch_info* out_info,
                     std::string* out_rendezvous_name) {
  std::vector<std::string> remarks;
  for (const Launcher& launcher : kLaunchers) {
    const Variables variables(environment, launcher.name);
    if (!variables.has_any(launcher.variables)) continue;
    keel_launch_info info = {};
    std::string name = launcher.name;
    const Status found = launcher.read(environment, variables, &info, &name);
    if (found.code() == KEEL_NOT_FOUND) {
      if (found.text()[0] != '\0') remarks.emplace_back(found.text());
      continue;
    }
    KEEL_RETURN_IF_ERROR(found);
    info.header = out_info->header;
    std::string_view(launcher.name).copy(info.launcher, sizeof(info.launcher) - 1);
    *out_info = info;
    *out_rendezvous_name = std::move(name);
    return {};
  }
  if (remarks.empty()) {
    return failure(KEEL_NOT_FOUND,
                   "no launcher has set its variables: KEEL_RANK, RANK, OMPI_COMM_WORLD_RANK, "
                   "PMI_RANK, SLURM_PROCID");
  }
  const std::string text = fmt::format("{}", fmt::join(remarks, "; "));
  environment.warn(text + ": this process is taken as the only one of its job");
  return failure(KEEL_NOT_FOUND, "no launcher has started this process: {}", text);
}

Status read_launcher(keel_launch_info* out_info, std::string* out_rendezvous_name) {
  return read_launcher(
      LauncherEnvironment{trusted_environment, find_starter, is_of_task, warn_once}, out_info,
      out_rendezvous_name);
}

std::string launcher_hint(const keel_launch_info& info) {
  for (const Launcher& launcher : kLaunchers) {
    if (std::string_view(launcher.name) != info.launcher) continue;
    return fmt::format(
        "this process is rank {} of {} by the environment variables of {}; if {} did not start all "
        "of them, unset {}",
        info.rank, info.world, launcher.name, launcher.name, fmt::join(launcher.variables, " "));
  }
  return {};
}

}  // namespace keel
