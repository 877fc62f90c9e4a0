// SPDX-License-Identifier: Apache-2.0
// The ABI's collectives table, implemented with BKCL.
#ifndef KEEL_BACKENDS_KUNLUN_CCL_TABLE_H_
#define KEEL_BACKENDS_KUNLUN_CCL_TABLE_H_

#include <keel/abi.h>

namespace keel::kunlun {

extern const keel_ccl_table kCclTable;

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_CCL_TABLE_H_
