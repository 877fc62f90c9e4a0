// SPDX-License-Identifier: Apache-2.0
// A small library of collectives that is right, for the plain plugin: all_reduce (sum, min, max)
// and broadcast of float32 and int32, among the devices of one process.
#ifndef KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_
#define KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_

#include <keel/abi.h>

#include "conformance/faulty/plain_plugin.h"

namespace keel::faulty {

// Its slots. run() also takes float64, which capability() does not offer.
const keel_ccl_table& plain_ccl();

// The plain tables with two devices, which claim CCL, and |ccl|, which stays where it is.
Tables tables_with(const keel_ccl_table& ccl);

}  // namespace keel::faulty

#endif  // KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_
