// SPDX-License-Identifier: Apache-2.0
// Fixture for tests of operators through keel.h: call structs, and a runtime with one backend that
// has all operators and a device that has two kernels.
#ifndef KEEL_OPS_DISPATCH_FIXTURE_H_
#define KEEL_OPS_DISPATCH_FIXTURE_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <keel/plugin_kit.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/keel_test.h"
#include "core/testing/test_backend.h"

#define EXPECT_OK(call) EXPECT_EQ(call, KEEL_OK) << keel_last_error()
#define ASSERT_OK(call) ASSERT_EQ(call, KEEL_OK) << keel_last_error()

namespace keel::testing {

// A call that owns its tensors and attributes.
struct Call {
  Call(keel_op_id op, std::vector<keel_tensor> in, std::vector<keel_tensor> out,
       std::vector<keel_attribute> values = {})
      : inputs(std::move(in)), outputs(std::move(out)), attributes(std::move(values)) {
    for (keel_tensor& tensor : inputs) {
      pointers.push_back(tensor.dtype == KEEL_DTYPE_INVALID ? nullptr : &tensor);
    }
    for (keel_tensor& tensor : outputs) pointers.push_back(&tensor);
    call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call.op = op;
    call.input_count = static_cast<uint32_t>(inputs.size());
    call.output_count = static_cast<uint32_t>(outputs.size());
    call.attribute_count = static_cast<uint32_t>(attributes.size());
    call.inputs = pointers.data();
    call.outputs = pointers.data() + inputs.size();
    call.attributes = attributes.data();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::vector<keel_tensor> inputs;
  std::vector<keel_tensor> outputs;
  std::vector<keel_attribute> attributes;
  std::vector<const keel_tensor*> pointers;
  keel_op_call call;
};

inline keel_attribute integer(int64_t value) {
  keel_attribute attribute;
  attribute.i = value;
  return attribute;
}
inline keel_attribute real(double value) {
  keel_attribute attribute;
  attribute.f = value;
  return attribute;
}

class Dispatch : public ::testing::Test {
 protected:
  void SetUp() override {
    keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    // The CPU backend serves the fallbacks.
    const std::string backends = "cpu," + test_backend();
    set_test_devices(1);
    options.backends = backends.c_str();
    ASSERT_OK(keel_init(&options));
    uint32_t backend = 0;
    const std::string plugin = plugin_path("dispatch_test_plugin");
    ASSERT_OK(keel_plugin_load(plugin.c_str(), nullptr, nullptr, &backend));
    ASSERT_OK(keel_device_find(test_backend().c_str(), &rich_));
    ASSERT_OK(keel_device_find("dispatchtest", &poor_));
    ASSERT_OK(keel_op_forbid_fallback(0));
  }
  void TearDown() override {
    for (const auto& [device, pointer] : memory_) EXPECT_OK(keel_free(device, pointer));
    for (keel_stream stream : streams_) EXPECT_OK(keel_stream_destroy(stream));
    EXPECT_OK(keel_shutdown());
  }

  keel_stream stream_on(keel_device device) {
    keel_stream stream = {};
    EXPECT_OK(keel_stream_create(device, 0, &stream));
    streams_.push_back(stream);
    return stream;
  }

  // Allocates device memory and fills it with |values|.
  keel_tensor tensor(keel_stream stream, keel_device device, std::initializer_list<int64_t> shape,
                     const std::vector<float>& values) {
    void* data = nullptr;
    EXPECT_OK(keel_alloc(device, KEEL_MEMORY_DEVICE, values.size() * sizeof(float), &data));
    memory_.emplace_back(device, data);
    EXPECT_OK(
        keel_copy(stream, device, data, KEEL_HOST, values.data(), values.size() * sizeof(float)));
    EXPECT_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
    return kit::make_tensor(data, KEEL_FLOAT32, shape);
  }

  std::vector<float> read(keel_stream stream, keel_device device, const keel_tensor& tensor,
                          size_t count) {
    std::vector<float> values(count, -1);
    EXPECT_OK(
        keel_copy(stream, KEEL_HOST, values.data(), device, tensor.data, count * sizeof(float)));
    EXPECT_OK(keel_stream_synchronize(stream, KEEL_TIMEOUT_DEFAULT));
    return values;
  }

  uint64_t fallbacks() {
    uint64_t count = 0;
    EXPECT_OK(keel_op_fallback_count(&count));
    return count;
  }

  std::string explain(keel_device device, const Call& call) {
    uint64_t size = 0;
    EXPECT_EQ(keel_op_explain(device, &call.call, nullptr, &size), KEEL_OUT_OF_RANGE);
    std::string text(size, '\0');
    EXPECT_OK(keel_op_explain(device, &call.call, text.data(), &size));
    text.resize(size - 1);
    return text;
  }

  void expect_refused(keel_status status, const std::string& text, keel_status want) {
    EXPECT_EQ(status, want);
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos)
        << "\"" << keel_last_error() << "\" does not say \"" << text << "\"";
  }

  keel_device rich_ = {};
  keel_device poor_ = {};
  std::vector<keel_stream> streams_;
  std::vector<std::pair<keel_device, void*>> memory_;
};

}  // namespace keel::testing

#endif  // KEEL_OPS_DISPATCH_FIXTURE_H_
