// SPDX-License-Identifier: Apache-2.0
// Group calls: the calling thread collects calls and issues them together.
#ifndef KEEL_EMULATOR_SHIMS_NCCL_GROUP_H_
#define KEEL_EMULATOR_SHIMS_NCCL_GROUP_H_

#include <nccl.h>

#include "emulator/shims/nccl/rank.h"

namespace keel::emulator::nccl {

void start_group();
// Closes a group. Closing the outermost group issues the calls, unless a call was refused: then no
// call is issued and the refusal is returned. Returns ncclInvalidUsage without a start.
ncclResult_t end_group();
bool is_in_group();

// Issues the call now, or with the calling thread's open group.
ncclResult_t make_call(Rank& rank, const Job& job);
// Records a refused call, which refuses its whole group. Returns |refusal|.
ncclResult_t refuse_call(ncclResult_t refusal);

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_SHIMS_NCCL_GROUP_H_
