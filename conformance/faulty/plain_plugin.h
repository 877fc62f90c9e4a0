// SPDX-License-Identifier: Apache-2.0
// A small plugin that is right: the one of samples/out_of_tree_plugin, whose one device is
// host memory and each stream a thread. The faulty plugins are this one with a slot replaced,
// so that what conformance finds in them is the fault and nothing else.
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

// The right ones. Claims PINNED, ASYNC, TIMING, NOTIFY, OPS (no more than it promises), FILL,
// MEMORY_INFO and PAGEABLE_ASYNC.
const Tables& plain_tables();

// The same with two devices, each the sample's with memory of its own.
Tables tables_of_two_devices();

// The answer of keel_plugin_query_v0 with |tables|, which are copied. Called once.
keel_status answer_query(const char* name, const Tables& tables, const keel_host* host,
                         const keel_plugin** out_plugin);

// For the slots that replace: |work| runs on the stream's thread, in its turn.
void enqueue(keel_plugin_stream* stream, std::function<void()> work);
// Makes |event| recorded and done at once.
void signal_now(keel_plugin_event* event);

}  // namespace keel::faulty

#endif  // KEEL_CONFORMANCE_FAULTY_PLAIN_PLUGIN_H_
