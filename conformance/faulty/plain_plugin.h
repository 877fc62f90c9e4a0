// SPDX-License-Identifier: Apache-2.0
// A small correct plugin: the one of samples/out_of_tree_plugin, with host memory as its single
// device and one thread per stream. Each faulty plugin replaces a slot of this plugin, so that
// conformance finds exactly the intended fault.
#ifndef KEEL_CONFORMANCE_FAULTY_PLAIN_PLUGIN_H_
#define KEEL_CONFORMANCE_FAULTY_PLAIN_PLUGIN_H_

#include <keel/abi.h>

#include <functional>

namespace keel::faulty {

struct Tables {
  keel_status (*create_instance)(const keel_instance_settings* settings,
                                 keel_plugin_instance** out_instance);
  keel_device_table device;
  keel_memory_table memory;
  keel_stream_table stream;
  keel_op_table op;
  const keel_kernel_table* kernel;  // NULL: none
  const keel_ccl_table* ccl;        // NULL: none
};

// Returns the correct tables, with the capabilities PINNED, ASYNC, TIMING, NOTIFY, OPS (only what
// OPS promises), FILL, MEMORY_INFO and PAGEABLE_ASYNC.
const Tables& plain_tables();
// plain_tables() with two identical devices.
const Tables& tables_of_two();

// Implements keel_plugin_query_v0 with |tables|, which are copied. Call it once.
keel_status answer_query(const char* name, const Tables& tables, const keel_host* host,
                         const keel_plugin** out_plugin);

// For replacement slots: |work| runs on the stream's thread, in stream order.
void enqueue(keel_plugin_stream* stream, std::function<void()> work);
// Marks |event| as recorded and completed at once.
void signal_now(keel_plugin_event* event);

}  // namespace keel::faulty

#endif  // KEEL_CONFORMANCE_FAULTY_PLAIN_PLUGIN_H_
