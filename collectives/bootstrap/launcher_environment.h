// SPDX-License-Identifier: Apache-2.0
// What the program that started this process says about it.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_

#include <keel/keel.h>

#include <functional>
#include <string>

#include "core/status.h"

namespace keel {

// The first of these that has set all of its variables, and a name that all processes of the job,
// and no other job, have in common, for meeting_id():
//  1. Keel: KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD, KEEL_MEETING (any text);
//  2. torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; MASTER_PORT names the job,
//     with MASTER_ADDR, TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT where set;
//  3. Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; PMIX_NAMESPACE or
//     OMPI_MCA_ess_base_jobid names the job;
//  4. MPICH and what else starts by Hydra: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS;
//     PMI_JOBID or PMI_PORT names the job where set, else the process of Hydra that has started
//     the ranks of this host;
//  5. Slurm: SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID;
//     SLURM_STEP_TASKS_PER_NODE, with SLURM_NODEID, or SLURM_NTASKS_PER_NODE; SLURM_JOB_ID and
//     SLURM_STEP_ID name the job. The shell of salloc or srun --pty and the script of a batch job
//     have these too and are no rank.
// KEEL_NOT_FOUND when no launcher has set all. Where some of a launcher's are set (a Kubernetes pod
// has RANK and WORLD_SIZE) or a shell of Slurm's has more tasks than one, the text says so, and so
// does a warning in the log, once a process. KEEL_INVALID_ARGUMENT, naming the variable and its
// value, when one of a complete set is no number or does not fit the others. Fills in all of
// |*out_info| but its header. Thread-safe as getenv is. The environment of a process that its
// start gave privileges is not looked at.
Status read_launcher(keel_launch_info* out_info, std::string* out_meeting_name);

// For the failure of a rank that waited for the others: which launcher's variables made it |info|'s
// rank, and which to unset where they are wrong.
std::string launcher_hint(const keel_launch_info& info);

// Where the above comes from.
struct LauncherEnvironment {
  // NULL for a variable that is not set.
  std::function<const char*(const char* name)> variable;
  // A name of the process that has started this one and the job's others on this host.
  // |socket|: the number of a descriptor of this process that is connected to it, as PMI_FD
  // says; NULL or nonsense: its parent.
  std::function<Status(const char* socket, std::string* out_name)> starter;
  // Whether |pid|, as SLURM_TASK_PID says, is this process or leads its process group.
  std::function<bool(const char* pid)> is_of_task;
  std::function<void(const std::string& text)> warn;
};
Status read_launcher(const LauncherEnvironment& environment, keel_launch_info* out_info,
                     std::string* out_meeting_name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_
