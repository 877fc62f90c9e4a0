// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_SILENT_PLUGIN_H_
#define KEEL_CONFORMANCE_SILENT_PLUGIN_H_

#include <keel/abi.h>

namespace keel::conformance {

// A plugin with every slot, each of which does nothing and says KEEL_OK: what bodies of cases on
// the tables call in the runner (observation.h), where there is no plugin.
const keel_plugin& silent_plugin();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SILENT_PLUGIN_H_
