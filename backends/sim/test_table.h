// SPDX-License-Identifier: Apache-2.0
// Injected failures and waits for conformance runs.
#ifndef KEEL_BACKENDS_SIM_TEST_TABLE_H_
#define KEEL_BACKENDS_SIM_TEST_TABLE_H_

#include <keel/abi.h>

namespace keel::sim {

extern const keel_test_table kTestTable;

}  // namespace keel::sim

#endif  // KEEL_BACKENDS_SIM_TEST_TABLE_H_
