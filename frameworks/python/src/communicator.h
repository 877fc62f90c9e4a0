// SPDX-License-Identifier: Apache-2.0
// Class Communicator of the module, and groups of calls.
#ifndef FRAMEWORKS_PYTHON_SRC_COMMUNICATOR_H_
#define FRAMEWORKS_PYTHON_SRC_COMMUNICATOR_H_

#include <nanobind/nanobind.h>

namespace keel_python {

void add_communicator(nanobind::module_& module);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_COMMUNICATOR_H_
