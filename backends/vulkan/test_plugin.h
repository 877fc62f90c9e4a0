// SPDX-License-Identifier: Apache-2.0
// The plugin under test: opened by file name, driven through the raw ABI.
#ifndef KEEL_BACKENDS_VULKAN_TEST_PLUGIN_H_
#define KEEL_BACKENDS_VULKAN_TEST_PLUGIN_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>

#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace keel::vulkan {

inline constexpr int64_t kMinuteNs = 60'000'000'000;

// The plugin's last error text on this thread.
inline thread_local std::string g_last_error;

inline const keel_plugin* load_plugin() {
  static const keel_plugin* const plugin = []() -> const keel_plugin* {
    static const keel_host host = {kit::header<keel_host>(KEEL_STRUCT_HOST), nullptr,
                                   [](void*, keel_log_level, const char*) {},
                                   [](void*, const char* text) { g_last_error = text; }};
    const char* folder = std::getenv("KEEL_PLUGIN_PATH");
    if (folder == nullptr) return nullptr;
    void* library =
        dlopen((std::string(folder) + "/libkeel_vulkan.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      g_last_error = dlerror();
      return nullptr;
    }
    auto query = reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
    const keel_plugin* out = nullptr;
    if (query == nullptr || query(&host, &out) != KEEL_OK) return nullptr;
    return out;
  }();
  return plugin;
}

inline keel_status create_instance(std::vector<std::pair<std::string, std::string>> settings,
                                   keel_plugin_instance** out_instance) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : settings) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keel_instance_settings raw = {};
  raw.header = kit::header<keel_instance_settings>(KEEL_STRUCT_INSTANCE_SETTINGS);
  raw.count = static_cast<uint32_t>(keys.size());
  raw.keys = keys.data();
  raw.values = values.data();
  return load_plugin()->create_instance(&raw, out_instance);
}

// Opens the first device; skips the test if there is none. Frees memory that a test leaves
// allocated.
class VulkanTest : public testing::Test {
 protected:
  void SetUp() override { open({}); }

  void open(std::vector<std::pair<std::string, std::string>> settings) {
    plugin_ = load_plugin();
    ASSERT_NE(plugin_, nullptr) << g_last_error;
    ASSERT_EQ(create_instance(std::move(settings), &instance_), KEEL_OK) << g_last_error;
    uint32_t count = 0;
    ASSERT_EQ(plugin_->device->count(instance_, &count), KEEL_OK);
    if (count == 0) GTEST_SKIP() << g_last_error;
    info_.header = kit::header<keel_device_info>(KEEL_STRUCT_DEVICE_INFO);
    ASSERT_EQ(plugin_->device->info(instance_, 0, &info_), KEEL_OK);
    ASSERT_EQ(plugin_->device->open(instance_, 0, &device_), KEEL_OK) << g_last_error;
    memory_ = plugin_->memory;
    streams_ = plugin_->stream;
    ASSERT_EQ(streams_->create(device_, 0, &stream_), KEEL_OK) << g_last_error;
  }

  void TearDown() override {
    if (stream_ != nullptr) {
      EXPECT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK);
      streams_->destroy(stream_);
    }
    for (const auto& [pointer, kind] : held_) {
      EXPECT_EQ(memory_->free(device_, kind, pointer), KEEL_OK) << g_last_error;
    }
    if (device_ != nullptr) plugin_->device->close(device_);
    if (instance_ != nullptr) plugin_->destroy_instance(instance_);
  }

  void* alloc(uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE) {
    void* pointer = nullptr;
    EXPECT_EQ(memory_->alloc(device_, kind, size, 0, &pointer), KEEL_OK) << g_last_error;
    held_[pointer] = kind;
    return pointer;
  }

  template <typename Element>
  void* upload(const std::vector<Element>& data) {
    void* pointer = alloc(data.size() * sizeof(Element) + 1);
    if (!data.empty()) {
      EXPECT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, pointer, data.data(),
                               data.size() * sizeof(Element)),
                KEEL_OK)
          << g_last_error;
    }
    return pointer;
  }

  template <typename Element>
  std::vector<Element> download(const void* pointer, size_t count) {
    std::vector<Element> data(count);
    EXPECT_EQ(streams_->copy(stream_, KEEL_COPY_DEVICE_TO_HOST, data.data(), pointer,
                             count * sizeof(Element)),
              KEEL_OK)
        << g_last_error;
    EXPECT_EQ(streams_->synchronize(stream_, kMinuteNs), KEEL_OK) << g_last_error;
    return data;
  }

  keel_plugin_event* record(keel_plugin_stream* stream, uint32_t flags = 0) {
    keel_plugin_event* event = nullptr;
    EXPECT_EQ(streams_->event_create(device_, flags, &event), KEEL_OK) << g_last_error;
    EXPECT_EQ(streams_->event_record(event, stream), KEEL_OK) << g_last_error;
    return event;
  }

  // A keel_op_call with its lists.
  struct Call {
    Call(keel_op_id op, std::vector<keel_tensor> in, std::vector<keel_tensor> out,
         std::vector<keel_attribute> attribute_list)
        : inputs(std::move(in)), outputs(std::move(out)), attributes(std::move(attribute_list)) {
      // A tensor of size 0 stands for an absent optional input.
      for (keel_tensor& tensor : inputs) in_list.push_back(tensor.size == 0 ? nullptr : &tensor);
      for (keel_tensor& tensor : outputs) out_list.push_back(&tensor);
      raw.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
      raw.op = op;
      raw.input_count = static_cast<uint32_t>(in_list.size());
      raw.output_count = static_cast<uint32_t>(out_list.size());
      raw.attribute_count = static_cast<uint32_t>(attributes.size());
      raw.inputs = in_list.data();
      raw.outputs = out_list.data();
      raw.attributes = attributes.data();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    std::vector<keel_tensor> inputs;
    std::vector<keel_tensor> outputs;
    std::vector<keel_attribute> attributes;
    std::vector<const keel_tensor*> in_list;
    std::vector<const keel_tensor*> out_list;
    keel_op_call raw = {};
  };

  keel_op_support query(const Call& call) {
    keel_op_support support = {};
    support.header = kit::header<keel_op_support>(KEEL_STRUCT_OP_SUPPORT);
    EXPECT_EQ(plugin_->op->query(device_, &call.raw, &support), KEEL_OK);
    return support;
  }

  // Queries the operator, allocates the requested workspace, and enqueues the call.
  void run(const Call& call) {
    const keel_op_support support = query(call);
    ASSERT_EQ(support.level, static_cast<uint32_t>(KEEL_OP_NATIVE)) << "op " << call.raw.op;
    void* workspace = support.workspace_bytes == 0 ? nullptr : alloc(support.workspace_bytes);
    ASSERT_EQ(plugin_->op->run(stream_, &call.raw, workspace), KEEL_OK) << g_last_error;
  }

  static keel_attribute integer(int64_t value) { return {.i = value}; }
  static keel_attribute real(double value) {
    keel_attribute attribute;
    attribute.f = value;
    return attribute;
  }

  const keel_plugin* plugin_ = nullptr;
  const keel_memory_table* memory_ = nullptr;
  const keel_stream_table* streams_ = nullptr;
  keel_plugin_instance* instance_ = nullptr;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  keel_device_info info_ = {};
  std::map<void*, keel_memory_kind> held_;
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_TEST_PLUGIN_H_
