// SPDX-License-Identifier: Apache-2.0
// What a communicator is configured to be.
#ifndef KEEL_EMULATOR_FACES_NCCL_CONFIG_H_
#define KEEL_EMULATOR_FACES_NCCL_CONFIG_H_

#include <nccl.h>

namespace keel::emulator::nccl {

// |given|, which is not NULL, with what it does not have undefined; of |version|, as
// ncclGetVersion says it, with what such a library does not look at undefined, too. Refused, as the
// library does, where it was not initialised, a member is out of range, or two of them do not go
// together; and a network that is not there, of which there is "Socket" alone.
ncclResult_t read_config(const ncclConfig_t& given, int version, ncclConfig_t* out_config);

}  // namespace keel::emulator::nccl

// Of no real library: how the last communicator of this process was configured, for tests. Strings
// are the caller's.
extern "C" void keel_emulated_nccl_last_config(ncclConfig_t* out_config);

#endif  // KEEL_EMULATOR_FACES_NCCL_CONFIG_H_
