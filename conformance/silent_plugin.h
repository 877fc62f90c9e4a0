// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_SILENT_PLUGIN_H_
#define KEEL_CONFORMANCE_SILENT_PLUGIN_H_

#include <keel/abi.h>

namespace keel::conformance {

// A plugin with every slot; each slot does nothing and returns KEEL_OK. The runner has no plugin:
// case bodies on the tables call the silent plugin there (observation.h).
const keel_plugin& silent_plugin();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SILENT_PLUGIN_H_
