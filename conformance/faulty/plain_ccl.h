// SPDX-License-Identifier: Apache-2.0
// A small correct collectives library for the plain plugin: all_reduce (sum, min, max) and
// broadcast of float32 and int32, among the devices of one process.
#ifndef KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_
#define KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_

#include <keel/abi.h>

#include "conformance/faulty/plain_plugin.h"

namespace keel::faulty {

// Returns the library's slots. run() also accepts float64, which capability() does not report.
const keel_ccl_table& plain_ccl();

// Returns the plain tables with two devices that have the CCL capability, and with |ccl|, which
// must outlive the plugin.
Tables tables_with(const keel_ccl_table& ccl);

}  // namespace keel::faulty

#endif  // KEEL_CONFORMANCE_FAULTY_PLAIN_CCL_H_
