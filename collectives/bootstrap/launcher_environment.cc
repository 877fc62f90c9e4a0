// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/launcher_environment.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

bool parse_number(std::string_view text, uint32_t* out_number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == end;
}

// Reads one launcher's variables.
class Variables {
 public:
  Variables(const LauncherEnvironment& environment, const char* launcher)
      : environment_(environment), launcher_(launcher) {}

  // NULL where not set, or set to nothing.
  const char* find(const char* name) const {
    const char* value = environment_.variable(name);
    return value != nullptr && *value != '\0' ? value : nullptr;
  }
  bool has_any(std::initializer_list<const char*> names) const {
    return std::any_of(names.begin(), names.end(),
                       [this](const char* name) { return find(name) != nullptr; });
  }
  Status missing(const char* name) const {
    return failure(KEEL_INVALID_ARGUMENT, "{} is not set, though others of {} are", name,
                   launcher_);
  }
  Status number(const char* name, uint32_t* out_number) const {
    const char* value = find(name);
    if (value == nullptr) return missing(name);
    if (!parse_number(value, out_number)) {
      return failure(KEEL_INVALID_ARGUMENT, "{}={} is no number from 0 to {}", name, value,
                     UINT32_MAX);
    }
    return {};
  }
  // Appends the value, if there is one.
  void append(const char* name, std::string* in_out_text) const {
    const char* value = find(name);
    *in_out_text += ':';
    if (value != nullptr) *in_out_text += value;
  }
  Status required(const char* name, std::string* in_out_text) const {
    if (find(name) == nullptr) return missing(name);
    append(name, in_out_text);
    return {};
  }

 private:
  const LauncherEnvironment& environment_;
  const char* const launcher_;
};

// Names of the variables of rank and world, among all and on this host.
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

// Each of these: KEEL_NOT_FOUND when the launcher is not there. The name in it is the
// beginning of the meeting's.
using Read = Status (*)(const LauncherEnvironment&, const Variables&, keel_launch_info*,
                        std::string*);

Status read_keel(const LauncherEnvironment&, const Variables& variables, keel_launch_info* out_info,
                 std::string* in_out_name) {
  constexpr Names kNames = {"KEEL_RANK", "KEEL_WORLD", "KEEL_LOCAL_RANK", "KEEL_LOCAL_WORLD"};
  if (!variables.has_any(
          {kNames.rank, kNames.world, kNames.local_rank, kNames.local_world, "KEEL_MEETING"})) {
    return Status(KEEL_NOT_FOUND, "");
  }
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  return variables.required("KEEL_MEETING", in_out_name);
}

Status read_torchrun(const LauncherEnvironment&, const Variables& variables,
                     keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  if (!variables.has_any({kNames.rank, kNames.world, kNames.local_rank, kNames.local_world})) {
    return Status(KEEL_NOT_FOUND, "");
  }
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  variables.append("MASTER_ADDR", in_out_name);
  KEEL_RETURN_IF_ERROR(variables.required("MASTER_PORT", in_out_name));
  variables.append("TORCHELASTIC_RUN_ID", in_out_name);
  // Processes that torchrun starts again after a failure meet anew.
  variables.append("TORCHELASTIC_RESTART_COUNT", in_out_name);
  return {};
}

Status read_open_mpi(const LauncherEnvironment&, const Variables& variables,
                     keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
  if (!variables.has_any({kNames.rank, kNames.world, kNames.local_rank, kNames.local_world})) {
    return Status(KEEL_NOT_FOUND, "");
  }
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  // Of Open MPI 4 and 5, and of those before.
  if (variables.find("PMIX_NAMESPACE") == nullptr &&
      variables.find("OMPI_MCA_ess_base_jobid") != nullptr) {
    return variables.required("OMPI_MCA_ess_base_jobid", in_out_name);
  }
  return variables.required("PMIX_NAMESPACE", in_out_name);
}

Status read_mpich(const LauncherEnvironment& environment, const Variables& variables,
                  keel_launch_info* out_info, std::string* in_out_name) {
  constexpr Names kNames = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
  if (!variables.has_any({kNames.rank, kNames.world, kNames.local_rank, kNames.local_world})) {
    return Status(KEEL_NOT_FOUND, "");
  }
  // srun --mpi=pmi2 sets PMI's variables beside its own, and none of Hydra's.
  if (!variables.has_any({kNames.local_rank, kNames.local_world}) &&
      variables.find("SLURM_PROCID") != nullptr) {
    return Status(KEEL_NOT_FOUND, "");
  }
  KEEL_RETURN_IF_ERROR(read_numbers(variables, kNames, out_info));
  for (const char* name : {"PMI_JOBID", "PMI_PORT"}) {
    if (variables.find(name) != nullptr) return variables.required(name, in_out_name);
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

// The number of tasks of node |node| in "4(x2),3": two nodes of four, one of three.
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

Status read_slurm(const LauncherEnvironment&, const Variables& variables,
                  keel_launch_info* out_info, std::string* in_out_name) {
  constexpr const char* kPerNode = "SLURM_STEP_TASKS_PER_NODE";
  Names names = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"};
  // The others are there in the shell of an allocation, too, which is no task.
  if (variables.find(names.rank) == nullptr) return Status(KEEL_NOT_FOUND, "");
  KEEL_RETURN_IF_ERROR(variables.number(names.rank, &out_info->rank));
  KEEL_RETURN_IF_ERROR(variables.number(names.world, &out_info->world));
  KEEL_RETURN_IF_ERROR(variables.number(names.local_rank, &out_info->local_rank));
  const char* per_node = variables.find(kPerNode);
  if (per_node != nullptr) {
    uint32_t node = 0;
    if (variables.find("SLURM_NODEID") != nullptr) {
      KEEL_RETURN_IF_ERROR(variables.number("SLURM_NODEID", &node));
    }
    if (!tasks_of_node(per_node, node, &out_info->local_world)) {
      return failure(KEEL_INVALID_ARGUMENT, "{}={} does not tell the tasks of node {}", kPerNode,
                     per_node, node);
    }
    names.local_world = kPerNode;
  } else if (variables.find(names.local_world) != nullptr) {
    KEEL_RETURN_IF_ERROR(variables.number(names.local_world, &out_info->local_world));
  } else {
    return variables.missing(kPerNode);
  }
  KEEL_RETURN_IF_ERROR(check(names, *out_info));
  KEEL_RETURN_IF_ERROR(variables.required("SLURM_JOB_ID", in_out_name));
  return variables.required("SLURM_STEP_ID", in_out_name);
}

Status name_of_process(int64_t pid, std::string* out_name) {
  uint64_t start_time = 0;
  KEEL_RETURN_IF_ERROR(process_start_time(pid, &start_time));
  *out_name = fmt::format("{}-{}", pid, start_time);
  return {};
}

// The creator of the socket pair, whatever scripts there are between it and this process.
Status find_starter(const char* socket, std::string* out_name) {
  uint32_t number = 0;
  Peer peer;
  if (socket != nullptr && parse_number(socket, &number) && number <= INT32_MAX &&
      peer_of(static_cast<int>(number), &peer).ok() && peer.pid > 0) {
    return name_of_process(peer.pid, out_name);
  }
  return name_of_process(getppid(), out_name);
}

}  // namespace

Status read_launcher(const LauncherEnvironment& environment, keel_launch_info* out_info,
                     std::string* out_meeting_name) {
  constexpr std::pair<const char*, Read> kLaunchers[] = {{"keel run", read_keel},
                                                         {"torchrun", read_torchrun},
                                                         {"Open MPI", read_open_mpi},
                                                         {"MPICH", read_mpich},
                                                         {"Slurm", read_slurm}};
  for (const auto& [launcher, read] : kLaunchers) {
    keel_launch_info info = {};
    std::string name = launcher;
    const Status found = read(environment, Variables(environment, launcher), &info, &name);
    if (found.code() == KEEL_NOT_FOUND) continue;
    KEEL_RETURN_IF_ERROR(found);
    info.header = out_info->header;
    std::string_view(launcher).copy(info.launcher, sizeof(info.launcher) - 1);
    *out_info = info;
    *out_meeting_name = std::move(name);
    return {};
  }
  return failure(KEEL_NOT_FOUND,
                 "no launcher has set its variables: KEEL_RANK, RANK, OMPI_COMM_WORLD_RANK, "
                 "PMI_RANK, SLURM_PROCID");
}

Status read_launcher(keel_launch_info* out_info, std::string* out_meeting_name) {
  return read_launcher(LauncherEnvironment{trusted_environment, find_starter}, out_info,
                       out_meeting_name);
}

}  // namespace keel
