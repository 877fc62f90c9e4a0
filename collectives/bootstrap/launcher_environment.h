// SPDX-License-Identifier: Apache-2.0
// Rank, world and job name from the environment variables of the launcher.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_

#include <keel/keel.h>

#include <functional>
#include <string>

#include "core/status.h"

namespace keel {

// Fills |*out_info|, except its header, from the first launcher below whose variables are all set.
// |*out_rendezvous_name| receives a name shared by all processes of the job and by no other job:
// the argument of rendezvous_id().
//  1. Keel: KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD, KEEL_BOOTSTRAP (any text);
//  2. torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; MASTER_PORT names the job,
//     with MASTER_ADDR, TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT where set;
//  3. Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; PMIX_NAMESPACE or
//     OMPI_MCA_ess_base_jobid names the job;
//  4. MPICH and other launchers based on Hydra: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID,
//     MPI_LOCALNRANKS; PMI_JOBID or PMI_PORT names the job where set, else the Hydra process that
//     started the ranks of this host (KEEL_UNAVAILABLE when that process cannot be identified);
//  5. Slurm: SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID;
//     SLURM_STEP_TASKS_PER_NODE, with SLURM_NODEID, or SLURM_NTASKS_PER_NODE; SLURM_JOB_ID and
//     SLURM_STEP_ID name the job. The shell of salloc or srun --pty and the script of a batch job
//     have these variables too and are no rank.
//
// KEEL_NOT_FOUND when no launcher has set all of its variables. Where a launcher has set some of
// them (a Kubernetes pod has RANK and WORLD_SIZE), or where a Slurm shell has more than one task,
// the text of KEEL_NOT_FOUND and a log warning, once per process, say so. KEEL_INVALID_ARGUMENT,
// naming the variable and its value, when a variable of a complete set is no number or contradicts
// the others. As thread-safe as getenv. A process that gained privileges at its start (set-user-ID)
// ignores the environment.
Status read_launcher(keel_launch_info* out_info, std::string* out_rendezvous_name);

// Hint for the failure of a rank that waited for other ranks: names the launcher whose variables
// gave |info| its rank, and the variables to unset where they are wrong.
std::string launcher_hint(const keel_launch_info& info);

// Source of the variables and of process names; tests substitute their own.
struct LauncherEnvironment {
  // Returns NULL for an unset variable.
  std::function<const char*(const char* name)> variable;
  // Names the process that started the processes of the job on this host. |socket|: number of a
  // descriptor of this process connected to that process, as PMI_FD gives it; NULL or an invalid
  // number: the parent process is named.
  std::function<Status(const char* socket, std::string* out_name)> starter;
  // Whether |pid|, as SLURM_TASK_PID gives it, is this process or leads its process group.
  std::function<bool(const char* pid)> is_of_task;
  std::function<void(const std::string& text)> warn;
};
Status read_launcher(const LauncherEnvironment& environment, keel_launch_info* out_info,
                     std::string* out_rendezvous_name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_LAUNCHER_ENVIRONMENT_H_
