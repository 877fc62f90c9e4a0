// SPDX-License-Identifier: Apache-2.0
// Slots of the emulated chip's tables that core does not call yet: native gates.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <cstdlib>
#include <string>

namespace {

constexpr int64_t kTestTimeout = 60'000'000'000;

const keel_plugin* query_plugin() {
  static const keel_host host = {
      {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
      nullptr,
      [](void*, keel_log_level, const char*) {},
      [](void*, const char*) {},
  };
  const char* const folder = std::getenv("KEEL_PLUGIN_PATH");
  const std::string path = std::string(folder == nullptr ? "." : folder) + "/libkeel_sim.so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query =
      reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  const keel_plugin* plugin = nullptr;
  return query != nullptr && query(&host, &plugin) == KEEL_OK ? plugin : nullptr;
}

class NativeGate : public testing::TestWithParam<const char*> {};

TEST_P(NativeGate, HoldsItsStreamAndWhoeverSharesTheQueue) {
  const keel_plugin* const plugin = query_plugin();
  ASSERT_NE(plugin, nullptr);
  const bool single = GetParam()[0] == '1';
  const char* const keys[] = {"devices", "single_queue"};
  const char* const values[] = {"1", GetParam()};
  const keel_instance_settings settings = {
      {sizeof(settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 2, 0, keys, values};
  const keel_stream_table& table = *plugin->stream;
  keel_plugin_instance* instance = nullptr;
  keel_plugin_device* device = nullptr;
  keel_plugin_stream* gated = nullptr;
  keel_plugin_stream* other = nullptr;
  keel_plugin_gate* gate = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(plugin->create_instance(&settings, &instance), KEEL_OK);
  ASSERT_EQ(plugin->device->open(instance, 0, &device), KEEL_OK);
  ASSERT_EQ(plugin->memory->alloc(device, KEEL_MEMORY_DEVICE, 64, 0, &memory), KEEL_OK);
  ASSERT_EQ(table.create(device, -1, &gated), KEEL_OK);
  ASSERT_EQ(table.create(device, 1, &other), KEEL_OK);
  ASSERT_EQ(table.gate_create(device, &gate), KEEL_OK);

  ASSERT_EQ(table.stream_wait_gate(gated, gate), KEEL_OK);
  ASSERT_EQ(table.fill(gated, memory, "\1", 1, 32), KEEL_OK);
  ASSERT_EQ(table.fill(other, static_cast<char*>(memory) + 32, "\2", 1, 32), KEEL_OK);
  EXPECT_EQ(table.query(gated), KEEL_NOT_READY);
  EXPECT_EQ(table.synchronize(gated, 1'000'000), KEEL_TIMED_OUT);
  EXPECT_EQ(table.synchronize(other, single ? 20'000'000 : kTestTimeout),
            single ? KEEL_TIMED_OUT : KEEL_OK);
  ASSERT_EQ(table.gate_open(gate), KEEL_OK);
  EXPECT_EQ(table.synchronize(gated, kTestTimeout), KEEL_OK);
  EXPECT_EQ(table.synchronize(other, kTestTimeout), KEEL_OK);
  char got[64] = {};
  ASSERT_EQ(table.copy(other, KEEL_COPY_DEVICE_TO_HOST, got, memory, 64), KEEL_OK);
  EXPECT_EQ(table.synchronize(other, kTestTimeout), KEEL_OK);
  EXPECT_EQ(got[31], 1);
  EXPECT_EQ(got[32], 2);

  table.gate_destroy(gate);
  table.destroy(gated);
  table.destroy(other);
  EXPECT_EQ(plugin->memory->free(device, KEEL_MEMORY_DEVICE, memory), KEEL_OK);
  plugin->device->close(device);
  plugin->destroy_instance(instance);
}

INSTANTIATE_TEST_SUITE_P(Queues, NativeGate, testing::Values("0", "1"),
                         [](const auto& info) { return info.param[0] == '1' ? "single" : "many"; });

}  // namespace
