// SPDX-License-Identifier: Apache-2.0
// Checks of the plugin's own tables once work of a device has failed.
#ifndef KEEL_CONFORMANCE_TABLE_FAILURES_H_
#define KEEL_CONFORMANCE_TABLE_FAILURES_H_

#include <cstddef>
#include <string>

#include "conformance/table_bench.h"

namespace keel::conformance {

// Every call on a lost device must return the loss, each time. |event| was recorded on stream 0 and
// has completed; |idle| was recorded before and may be recorded again. |device| and |pinned| have
// 64 KiB each.
void check_lost(TableBench& bench, keel_plugin_event* event, keel_plugin_event* idle,
                std::byte* device, const std::byte* pinned);

// Only KEEL_DEVICE_LOST ends the use of a device: after any other failure, a new stream and new
// memory must work.
void check_usable(const Context& context, const std::string& after);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_FAILURES_H_
