// SPDX-License-Identifier: Apache-2.0
// The ABI's collectives table over the emulated chip's own library.
#ifndef KEEL_BACKENDS_SIM_CCL_TABLE_H_
#define KEEL_BACKENDS_SIM_CCL_TABLE_H_

#include <keel/abi.h>

namespace keel::sim {

extern const keel_ccl_table kCclTable;

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_CCL_TABLE_H_
