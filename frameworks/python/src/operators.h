// SPDX-License-Identifier: Apache-2.0
// Calls of operators; the named functions of keel.ops are generated over them.
#ifndef FRAMEWORKS_PYTHON_SRC_OPERATORS_H_
#define FRAMEWORKS_PYTHON_SRC_OPERATORS_H_

#include <nanobind/nanobind.h>

namespace keel_python {

void add_operators(nanobind::module_& module);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_OPERATORS_H_
