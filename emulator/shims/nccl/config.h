// SPDX-License-Identifier: Apache-2.0
// Validation of ncclConfig_t.
#ifndef KEEL_EMULATOR_SHIMS_NCCL_CONFIG_H_
#define KEEL_EMULATOR_SHIMS_NCCL_CONFIG_H_

#include <nccl.h>

namespace keel::emulator::nccl {

// Copies |given|, which is not NULL. Sets to undefined the members that |given| lacks, and those
// that a library of |version|, numbered as in ncclGetVersion, does not read. As NCCL does, refuses
// an uninitialised config, a member out of range, two members that conflict, and an unknown network
// ("Socket" is the only known network).
ncclResult_t read_config(const ncclConfig_t& given, int version, ncclConfig_t* out_config);

}  // namespace keel::emulator::nccl

// Test hook, absent from NCCL: returns the config of the last communicator of this process. The
// caller owns the strings.
extern "C" void keel_emulated_nccl_last_config(ncclConfig_t* out_config);

#endif  // KEEL_EMULATOR_SHIMS_NCCL_CONFIG_H_
