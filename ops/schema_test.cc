// SPDX-License-Identifier: Apache-2.0
#include "ops/schema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "ops/docs.h"
#include "ops/testing/case_data.h"
#include "ops/testing/cases.h"

namespace keel::ops {
namespace {

constexpr uint64_t kSeed = 1;

TEST(SchemaTable, RowsAreFoundByNumberAndName) {
  EXPECT_EQ(schemas().size(), KEEL_OP_COUNT - 1);
  for (keel_op_id op = KEEL_OP_INVALID + 1; op < KEEL_OP_COUNT; ++op) {
    ASSERT_NE(find_schema(op), nullptr) << op;
    EXPECT_EQ(find_schema(op)->op, op);
  }
  for (const Schema* row : schemas()) {
    const Schema& schema = *row;
    EXPECT_EQ(find_schema(schema.op), &schema);
    EXPECT_EQ(find_schema(std::string_view(schema.name)), &schema);
  }
  EXPECT_EQ(find_schema(keel_op_id{KEEL_OP_INVALID}), nullptr);
  EXPECT_EQ(find_schema(keel_op_id{KEEL_OP_COUNT}), nullptr);
  EXPECT_EQ(find_schema(keel_op_id{KEEL_OP_CUSTOM_BASE}), nullptr);
  EXPECT_EQ(find_schema(std::string_view("conv2d")), nullptr);
}

TEST(SchemaTable, RowsFitTheirArrays) {
  for (const Schema* row : schemas()) {
    const Schema& schema = *row;
    SCOPED_TRACE(schema.name);
    ASSERT_LE(schema.inputs.size(), kMaxInputs);
    ASSERT_LE(schema.outputs.size(), kMaxOutputs);
    ASSERT_GE(schema.outputs.size(), 1u);
    for (const DtypeCombination& dtypes : schema.dtypes) {
      for (uint32_t i = 0; i < kMaxInputs; ++i) {
        EXPECT_EQ(kit::dtype_size(dtypes.inputs[i]) != 0, i < schema.inputs.size());
      }
      for (uint32_t o = 0; o < kMaxOutputs; ++o) {
        EXPECT_EQ(kit::dtype_size(dtypes.outputs[o]) != 0, o < schema.outputs.size());
      }
    }
    for (const AttributeSpec& attribute : schema.attributes) {
      EXPECT_GE(attribute.default_value, attribute.minimum) << attribute.name;
      EXPECT_LE(attribute.default_value, attribute.maximum) << attribute.name;
    }
    EXPECT_FALSE(schema.dtypes.front().optional) << "the first combination is the one all have";
  }
}

TEST(Cases, FitTheirSchema) {
  for (const Case& each : all_cases()) {
    SCOPED_TRACE(each.id);
    CaseData data(each, kSeed);
    CheckError error;
    error.text[0] = '\0';
    ASSERT_EQ(check_call(data.call(), Check::kAll, &error), KEEL_OK) << error.text;
    EXPECT_EQ(dtype_combination(data.call()), each.combination);
  }
}

TEST(Cases, AreUniqueAndStable) {
  std::set<std::string> ids;
  for (const Case& each : all_cases()) EXPECT_TRUE(ids.insert(each.id).second) << each.id;
  EXPECT_TRUE(ids.contains("matmul/f32/nt/m33_n65_k17/bias"));
  EXPECT_TRUE(ids.contains("add/f32/31x17/c_is_a"));
  EXPECT_TRUE(ids.contains("cross_entropy/f32/n67_v131/masked"));
}

TEST(Cases, CoverEveryDtypeInPlaceAndOptionalInput) {
  for (const Schema* row : schemas()) {
    const Schema& schema = *row;
    SCOPED_TRACE(schema.name);
    std::set<uint32_t> combinations;
    std::set<std::pair<size_t, int>> places;
    std::set<size_t> left_out;
    bool empty = false;
    for (const Case& each : cases_of(schema)) {
      combinations.insert(each.combination);
      for (size_t o = 0; o < each.outputs.size(); ++o) {
        if (each.in_place[o] >= 0) places.insert({o, each.in_place[o]});
        for (int64_t extent : each.outputs[o].shape) empty |= extent == 0;
      }
      for (size_t i = 0; i < each.inputs.size(); ++i) {
        for (int64_t extent : each.inputs[i].shape) empty |= extent == 0;
        if (!each.inputs[i].present) left_out.insert(i);
      }
    }
    EXPECT_TRUE(empty);
    EXPECT_EQ(combinations.size(), schema.dtypes.size());
    for (size_t o = 0; o < schema.outputs.size(); ++o) {
      for (int i = 0; i < static_cast<int>(schema.inputs.size()); ++i) {
        EXPECT_EQ(places.contains({o, i}), (schema.outputs[o].in_place >> i & 1u) != 0) << o << i;
      }
    }
    for (size_t i = 0; i < schema.inputs.size(); ++i) {
      EXPECT_EQ(left_out.contains(i), schema.inputs[i].optional) << schema.inputs[i].name;
    }
  }
}

// A well-formed call, which each test then modifies.
class Malformed : public testing::Test {
 protected:
  // Starts from the case |id|.
  void start(const std::string& id) {
    data_.reset();
    static const std::vector<Case> kCases = all_cases();
    for (const Case& each : kCases) {
      if (each.id == id) data_ = std::make_unique<CaseData>(each, kSeed);
    }
    ASSERT_NE(data_, nullptr) << id;
    call_ = data_->call();
    tensors_.clear();
    pointers_.clear();
    const uint32_t count = call_.input_count + call_.output_count;
    tensors_.resize(count);
    pointers_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      const keel_tensor* from =
          i < call_.input_count ? call_.inputs[i] : call_.outputs[i - call_.input_count];
      if (from == nullptr) continue;
      tensors_[i] = *from;
      pointers_[i] = &tensors_[i];
    }
    call_.inputs = pointers_.data();
    call_.outputs = pointers_.data() + call_.input_count;
    attributes_.assign(call_.attributes, call_.attributes + call_.attribute_count);
    call_.attributes = attributes_.data();
  }

  keel_tensor& input(uint32_t index) { return tensors_[index]; }
  keel_tensor& output(uint32_t index) { return tensors_[call_.input_count + index]; }

  void expect(keel_status status, const std::string& text, Check check = Check::kAll) {
    CheckError error;
    error.text[0] = '\0';
    EXPECT_EQ(check_call(call_, check, &error), status);
    EXPECT_NE(std::string(error.text).find(text), std::string::npos)
        << "\"" << error.text << "\" does not say \"" << text << "\"";
  }

  keel_op_call call_ = {};
  std::vector<keel_tensor> tensors_;
  std::vector<const keel_tensor*> pointers_;
  std::vector<keel_attribute> attributes_;
  std::unique_ptr<CaseData> data_;
};

TEST_F(Malformed, Call) {
  start("add/f32/7");
  call_.header.size = sizeof(keel_op_call) - 1;
  expect(KEEL_INVALID_ARGUMENT, "header");
  start("add/f32/7");
  call_.header.type = KEEL_STRUCT_LAUNCH;
  expect(KEEL_INVALID_ARGUMENT, "header");
  start("add/f32/7");
  call_.op = KEEL_OP_COUNT;
  expect(KEEL_NOT_FOUND, std::to_string(KEEL_OP_COUNT) + " is no operator");
  start("add/f32/7");
  call_.input_count = 1;
  expect(KEEL_INVALID_ARGUMENT, "add: 1 inputs given, it takes 2");
  start("add/f32/7");
  call_.output_count = 2;
  expect(KEEL_INVALID_ARGUMENT, "add: 2 outputs");
  start("scale/f32/7");
  call_.attribute_count = 0;
  expect(KEEL_INVALID_ARGUMENT, "scale: 0 attributes");
  start("scale/f32/7");
  call_.attributes = nullptr;
  expect(KEEL_INVALID_ARGUMENT, "NULL");
}

TEST_F(Malformed, Extensions) {
  start("add/f32/7");
  keel_header extension = {sizeof(keel_header), 1000, nullptr};
  call_.header.next = &extension;
  expect(KEEL_OK, "");
  extension.type |= KEEL_STRUCT_REQUIRED;
  expect(KEEL_UNSUPPORTED, "add: required extension");
}

TEST_F(Malformed, Tensors) {
  start("add/f32/7");
  pointers_[1] = nullptr;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: is NULL");
  start("add/f32/7");
  pointers_[2] = nullptr;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: is NULL");
  start("add/f32/7");
  input(0).size = 8;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: size is 8");
  start("add/f32/7");
  input(0).dtype = KEEL_DTYPE_COUNT;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: 15 is no dtype");
  start("add/f32/7");
  input(1).rank = 9;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: rank 9");
  start("add/f32/7");
  input(1).shape[0] = -7;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: axis 0: extent -7");
  start("add/f32/7");
  input(1).strides[0] = -1;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: axis 0: stride -1");
  start("add/f32/7");
  output(0).strides[0] = 0;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: its strides let elements share");
  start("add/f32/31x17");
  output(0).strides[0] = 16;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: its strides let elements share");
}

TEST_F(Malformed, HugeTensorsAreRefusedWithoutOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  start("add/f32/31x17");
  input(0).shape[0] = kMax;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: its size");
  start("add/f32/31x17");
  input(0).strides[0] = kMax;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: its size");
  start("add/f32/31x17");
  input(0).shape[0] = kMax;  // empty, but the product of extents overflows
  input(0).shape[1] = 0;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: its size");
  start("add/f32/31x17");
  input(0).shape[0] = int64_t{1} << 61;  // 2^63 bytes, although all strides are 0
  input(0).strides[0] = 0;
  input(0).shape[1] = 1;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: its size");
}

TEST_F(Malformed, Addresses) {
  start("add/f32/7");
  input(0).data = nullptr;
  expect(KEEL_INVALID_ARGUMENT, "add: input a: data is NULL");
  expect(KEEL_OK, "", Check::kLayout);
  start("add/f32/0");
  input(0).data = nullptr;
  expect(KEEL_OK, "");
  start("add/f32/7");
  input(1).byte_offset = 2;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: data + byte_offset");
  start("add/f32/7");
  input(1).byte_offset = std::numeric_limits<uint64_t>::max() - 3;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: data + byte_offset");
  start("add/f32/7");
  input(1).data = reinterpret_cast<void*>(std::numeric_limits<uintptr_t>::max() - 7);
  expect(KEEL_INVALID_ARGUMENT, "add: input b: its end");
}

TEST_F(Malformed, Dtypes) {
  start("add/f32/7");
  input(1).dtype = KEEL_BFLOAT16;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: bfloat16");
  start("add/f32/7");
  output(0).dtype = KEEL_INT32;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: int32");
  start("embedding/f32/v17_d5_n33");
  input(1).dtype = KEEL_FLOAT32;
  expect(KEEL_INVALID_ARGUMENT, "embedding: input indices: float32");
}

TEST_F(Malformed, Aliasing) {
  start("add/f32/31x17");
  output(0).data = input(0).data;
  output(0).byte_offset = 4;
  output(0).shape[0] = input(0).shape[0] = input(1).shape[0] = 30;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: overlaps input a");
  expect(KEEL_OK, "", Check::kLayout);
  start("matmul/f32/nn/m16_n16_k16");
  output(0).data = input(1).data;
  expect(KEEL_INVALID_ARGUMENT, "matmul: output c: is input b, which it must not overwrite");
  start("axpy/f32/7");
  output(0).data = input(0).data;
  expect(KEEL_INVALID_ARGUMENT, "axpy: output out: is input x");
  start("cross_entropy/f32/n5_v7");
  output(1).data = output(0).data;
  expect(KEEL_INVALID_ARGUMENT, "cross_entropy: output logsumexp: overlaps output loss");
  start("add/f32/31x17");  // the same memory transposed is not in place
  output(0).data = input(0).data;
  output(0).shape[0] = input(0).shape[0] = input(1).shape[0] = 17;
  input(0).strides[0] = 1;
  input(0).strides[1] = 17;
  expect(KEEL_INVALID_ARGUMENT, "add: output c: overlaps input a");
}

TEST_F(Malformed, Attributes) {
  const double nan = std::nan("");
  start("sum/f32/rows/7x13");
  attributes_[0].i = 2;
  expect(KEEL_INVALID_ARGUMENT, "sum: attribute axis: 2 is not within [-1, 1]");
  start("matmul/f32/nn/m16_n16_k16");
  attributes_[1].i = 2;
  expect(KEEL_INVALID_ARGUMENT, "matmul: attribute trans_b");
  const char* names[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
  for (uint32_t a = 0; a < 5; ++a) {
    for (double bad : {-1e-9, nan}) {
      start("adamw/f32/7");
      attributes_[a].f = bad;
      expect(KEEL_INVALID_ARGUMENT, std::string("adamw: attribute ") + names[a]);
    }
  }
  start("adamw/f32/7");
  attributes_[1].f = 1;
  expect(KEEL_INVALID_ARGUMENT, "adamw: attribute beta1");
  start("adamw/f32/7");
  attributes_[5].i = 0;
  expect(KEEL_INVALID_ARGUMENT, "adamw: attribute step: 0");
  start("scale/f32/7");
  attributes_[0].f = nan;  // a factor may be any number
  expect(KEEL_OK, "");
}

TEST_F(Malformed, FillValuesThatDoNotFit) {
  for (double bad : {-1.0, 256.0, std::nan("")}) {
    start("fill/u8/7");
    attributes_[0].f = bad;
    expect(KEEL_INVALID_ARGUMENT, "fill: attribute value");
  }
  for (double bad : {-0x1p31 - 1, 0x1p31}) {
    start("fill/i32/7");
    attributes_[0].f = bad;
    expect(KEEL_INVALID_ARGUMENT, "fill: attribute value");
  }
  start("fill/i64/7");
  attributes_[0].f = 0x1p63;
  expect(KEEL_INVALID_ARGUMENT, "fill: attribute value");
  start("fill/u8/7");
  attributes_[0].f = 255.9;
  expect(KEEL_OK, "");
}

TEST_F(Malformed, ShapesNameTheArgument) {
  start("add/f32/31x17");
  input(1).shape[0] = 30;
  expect(KEEL_INVALID_ARGUMENT, "add: input b: its shape is [30,17], not [31,17]");
  start("adamw/f32/31x17");
  output(2).shape[1] = 16;
  expect(KEEL_INVALID_ARGUMENT, "adamw: output v_out: its shape");
  start("sum/f32/cols/7x13");
  output(0).shape[0] = 13;
  expect(KEEL_INVALID_ARGUMENT, "sum: output y: its shape is [13], not [7]");
  start("sum/f32/cols/7x13");
  input(0).rank = 1;
  expect(KEEL_INVALID_ARGUMENT, "sum: input x: its rank is 1, not 2");
  start("matmul/f32/nt/m33_n65_k17");
  input(1).shape[1] = 16;
  expect(KEEL_INVALID_ARGUMENT, "matmul: input b: it has 16 along k, input a has 17");
  start("matmul/f32/nt/m33_n65_k17/bias");
  input(2).shape[0] = 33;
  expect(KEEL_INVALID_ARGUMENT, "matmul: input bias: its shape is [33], not [65]");
  start("matmul/f32/tn/m33_n65_k17");
  output(0).shape[0] = 17;
  expect(KEEL_INVALID_ARGUMENT, "matmul: output c: its shape is [17,65], not [33,65]");
  start("embedding/f32/v17_d5_n33");
  output(0).shape[0] = 32;
  expect(KEEL_INVALID_ARGUMENT, "embedding: output out: its shape");
  start("embedding_backward/f32/v17_d5_n33");
  input(1).shape[0] = 32;
  expect(KEEL_INVALID_ARGUMENT, "embedding_backward: input indices: its shape");
  start("cross_entropy/f32/n5_v7");
  input(0).shape[1] = 0;
  expect(KEEL_INVALID_ARGUMENT, "cross_entropy: input logits: its rows are empty");
  start("cross_entropy_backward/f32/n5_v7");
  input(2).shape[0] = 4;
  expect(KEEL_INVALID_ARGUMENT, "cross_entropy_backward: input logsumexp: its shape");
}

TEST(Docs, OperatorsPageIsFresh) {
  std::ifstream file(KEEL_SOURCE_DIR "/docs/operators.md");
  std::stringstream content;
  content << file.rdbuf();
  const std::string page = content.str();
  // The table of backends is not part of the schema: the test of `keel ops list` checks it.
  const size_t begin = page.find(kSupportBegin);
  const size_t end = page.find(kSupportEnd);
  ASSERT_TRUE(begin < end && end != std::string::npos);
  const size_t table = begin + kSupportBegin.size();
  EXPECT_TRUE(page == operators_markdown(page.substr(table, end - table)))
      << "docs/operators.md is stale; refresh it: keel ops list --markdown > docs/operators.md";
}

}  // namespace
}  // namespace keel::ops
