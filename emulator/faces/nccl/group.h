// SPDX-License-Identifier: Apache-2.0
// Calls that the calling thread collects, to be made at once.
#ifndef KEEL_EMULATOR_FACES_NCCL_GROUP_H_
#define KEEL_EMULATOR_FACES_NCCL_GROUP_H_

#include <nccl.h>

#include "emulator/faces/nccl/rank.h"

namespace keel::emulator::nccl {

void start_group();
// The end of the outermost one makes the calls, unless one of them was refused: then none is made
// and the refusal is returned. ncclInvalidUsage without a start.
ncclResult_t end_group();
bool is_in_group();

// Now, or with the group that the thread has started.
ncclResult_t make_call(Rank& rank, const Job& job);
// A call that was refused; of a group, all of it. |refusal| itself.
ncclResult_t refuse_call(ncclResult_t refusal);

}  // namespace keel::emulator::nccl

#endif  // KEEL_EMULATOR_FACES_NCCL_GROUP_H_
