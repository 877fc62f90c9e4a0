// SPDX-License-Identifier: Apache-2.0
// An open device of the plugin, with a stream, on an SDK of the test's own.
#ifndef KEEL_BACKENDS_ASCEND_TESTING_DEVICE_TEST_H_
#define KEEL_BACKENDS_ASCEND_TESTING_DEVICE_TEST_H_

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/ascend/testing/own_sdk.h"

namespace keel::testing {

class AscendTest : public ::testing::Test {
 protected:
  void TearDown() override { close(); }

  void open(const std::string& settings = "memory_mib=64",
            const std::function<void(const OwnSdk&)>& change = {}) {
    sdk_ = std::make_unique<OwnSdk>(settings);
    if (change) change(*sdk_);
    instance_ = std::make_unique<OwnInstance>(sdk_->folder());
    ASSERT_EQ(instance_->count(), 2u) << instance_->reason();
    ASSERT_EQ(plugin().device->open(instance_->get(), 0, &device_), KEEL_OK) << t_error;
    ASSERT_EQ(plugin().stream->create(device_, 0, &stream_), KEEL_OK) << t_error;
  }
  void close() {
    if (stream_ != nullptr) plugin().stream->destroy(stream_);
    for (void* pointer : memory_) plugin().memory->free(device_, KEEL_MEMORY_DEVICE, pointer);
    if (device_ != nullptr) plugin().device->close(device_);
    memory_.clear();
    stream_ = nullptr;
    device_ = nullptr;
    instance_.reset();
    sdk_.reset();
  }
  const keel_plugin& plugin() const { return instance_->plugin(); }
  char* alloc(uint64_t size) {
    void* pointer = nullptr;
    EXPECT_EQ(plugin().memory->alloc(device_, KEEL_MEMORY_DEVICE, size, 0, &pointer), KEEL_OK)
        << t_error;
    memory_.push_back(pointer);
    return static_cast<char*>(pointer);
  }
  keel_status settle() const {
    keel_status status = KEEL_NOT_READY;
    while ((status = plugin().stream->query(stream_)) == KEEL_NOT_READY) std::this_thread::yield();
    return status;
  }
  keel_status copy(keel_copy_kind kind, void* to, const void* from, uint64_t size) const {
    return plugin().stream->copy(stream_, kind, to, from, size);
  }

  // A dense tensor in memory of its own, with |values| or for a result.
  template <typename Value>
  keel_tensor tensor(keel_dtype dtype, std::initializer_list<int64_t> shape,
                     const std::vector<Value>& values) {
    char* const memory = alloc(values.size() * sizeof(Value));
    EXPECT_EQ(copy(KEEL_COPY_HOST_TO_DEVICE, memory, values.data(), values.size() * sizeof(Value)),
              KEEL_OK)
        << t_error;
    return kit::make_tensor(memory, dtype, shape);
  }
  keel_tensor floats(std::initializer_list<int64_t> shape, const std::vector<float>& values) {
    return tensor(KEEL_FLOAT32, shape, values);
  }
  // The elements of a dense tensor, once all work is done.
  template <typename Value = float>
  std::vector<Value> read(const keel_tensor& tensor) const {
    std::vector<Value> values(static_cast<size_t>(kit::element_count(tensor)));
    EXPECT_EQ(copy(KEEL_COPY_DEVICE_TO_HOST, values.data(), kit::first_element(tensor),
                   values.size() * sizeof(Value)),
              KEEL_OK)
        << t_error;
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    return values;
  }

  // A call of an operator, and what it points to.
  struct Call {
    Call(keel_op_id op, std::vector<const keel_tensor*> from, const std::vector<keel_tensor>& to,
         std::vector<keel_attribute> with)
        : inputs(std::move(from)), outputs(to), attributes(std::move(with)) {
      for (const keel_tensor& output : outputs) pointers.push_back(&output);
      call.header = {sizeof(call), KEEL_STRUCT_OP_CALL, nullptr};
      call.op = op;
      call.input_count = static_cast<uint32_t>(inputs.size());
      call.inputs = inputs.data();
      call.output_count = static_cast<uint32_t>(outputs.size());
      call.outputs = pointers.data();
      call.attribute_count = static_cast<uint32_t>(attributes.size());
      call.attributes = attributes.data();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    std::vector<const keel_tensor*> inputs;
    std::vector<keel_tensor> outputs;
    std::vector<const keel_tensor*> pointers;
    std::vector<keel_attribute> attributes;
    keel_op_call call = {};
  };
  keel_op_support query(const Call& call) const {
    keel_op_support support = {};
    support.header = {sizeof(support), KEEL_STRUCT_OP_SUPPORT, nullptr};
    EXPECT_EQ(plugin().op->query(device_, &call.call, &support), KEEL_OK) << t_error;
    return support;
  }
  bool supports(const Call& call) const { return query(call).level != KEEL_OP_NONE; }
  // Runs |call| with a workspace of its own.
  keel_status run(const Call& call) {
    const uint64_t bytes = query(call).workspace_bytes;
    return plugin().op->run(stream_, &call.call, bytes == 0 ? nullptr : alloc(bytes));
  }
  keel_status run(keel_op_id op, const std::vector<const keel_tensor*>& inputs,
                  const keel_tensor& output, const std::vector<keel_attribute>& attributes) {
    return run(Call(op, inputs, {output}, attributes));
  }

  std::unique_ptr<OwnSdk> sdk_;
  std::unique_ptr<OwnInstance> instance_;
  keel_plugin_device* device_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  std::vector<void*> memory_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_ASCEND_TESTING_DEVICE_TEST_H_
