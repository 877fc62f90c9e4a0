// SPDX-License-Identifier: Apache-2.0
#include "conformance/faulty/plain_plugin.h"

#include <keel/plugin_kit.hpp>
#include <utility>

#include "samples/out_of_tree_plugin/chip.h"
#include "samples/out_of_tree_plugin/tables.h"

namespace keel::faulty {

namespace {

// The sample has one device. Of those beyond two it says that they are not there.
uint32_t of_sample(uint32_t ordinal) {
  return ordinal < 2 ? 0 : ordinal;
}

keel_status count_two(keel_plugin_instance*, uint32_t* out_count) {
  *out_count = 2;
  return KEEL_OK;
}

keel_status info_of_two(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  return plain_tables().device.info(instance, of_sample(ordinal), out_info);
}

keel_status open_of_two(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return plain_tables().device.open(instance, of_sample(ordinal), out_device);
}

}  // namespace

void enqueue(keel_plugin_stream* stream, std::function<void()> work) {
  tinychip::object(stream).enqueue([work = std::move(work)] {
    work();
    return keel_status{KEEL_OK};
  });
}

void signal_now(keel_plugin_event* event) {
  tinychip::object(event).begin();
  tinychip::object(event).finish(KEEL_OK);
}

const Tables& plain_tables() {
  static const Tables tables = {tinychip::kPlugin.create_instance,
                                *tinychip::kPlugin.device,
                                *tinychip::kPlugin.memory,
                                *tinychip::kPlugin.stream,
                                *tinychip::kPlugin.op,
                                tinychip::kPlugin.kernel,
                                tinychip::kPlugin.ccl};
  return tables;
}

Tables tables_of_two_devices() {
  Tables tables = plain_tables();
  tables.device.count = count_two;
  tables.device.info = info_of_two;
  tables.device.open = open_of_two;
  return tables;
}

keel_status answer_query(const char* name, const Tables& tables, const keel_host* host,
                         const keel_plugin** out_plugin) {
  static Tables used;
  static keel_plugin plugin;
  kit::g_host = host;
  used = tables;
  plugin = tinychip::kPlugin;
  plugin.name = name;
  plugin.create_instance = tables.create_instance;
  plugin.device = &used.device;
  plugin.memory = &used.memory;
  plugin.stream = &used.stream;
  plugin.kernel = used.kernel;
  plugin.op = &used.op;
  plugin.ccl = used.ccl;
  *out_plugin = &plugin;
  return KEEL_OK;
}

}  // namespace keel::faulty
