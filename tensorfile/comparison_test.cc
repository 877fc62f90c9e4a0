// SPDX-License-Identifier: Apache-2.0
// Divergence of files and folders, and inputs that cannot be compared.
#include "tensorfile/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tensorfile/order.h"
#include "tensorfile/testing/tensor_folder.h"

namespace keel::tensorfile {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ComparisonTest : public ::testing::Test {
 protected:
  static std::vector<TensorComparison> all(const fs::path& a, const fs::path& b,
                                           std::optional<double> tolerance = std::nullopt) {
    std::vector<TensorComparison> all;
    compare(a, b, {tolerance}, [&](const TensorComparison& each) { all.push_back(each); });
    return all;
  }
  // For files of one tensor.
  template <typename Stored>
  TensorComparison one(const std::string& dtype, const std::vector<Stored>& a,
                       const std::vector<Stored>& b,
                       std::optional<double> tolerance = std::nullopt) {
    folder_.add_as(dtype, "x", a);
    const fs::path path_a = folder_.write("one_a");
    folder_.add_as(dtype, "x", b);
    return all(path_a, folder_.write("one_b"), tolerance).at(0);
  }
  // Text that the comparison throws; empty if it throws nothing.
  static std::string refusal(const fs::path& a, const fs::path& b) {
    try {
      all(a, b);
      return {};
    } catch (const FileError& error) {
      return error.what();
    }
  }
  static void expect_refusal(const fs::path& a, const fs::path& b, const std::string& part) {
    for (const std::string& text : {refusal(a, b), refusal(b, a)}) {
      EXPECT_NE(text.find(part), std::string::npos) << "should say " << part << ", said " << text;
    }
  }
  fs::path put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    return folder_.path() / name;
  }

  testing::TensorFolder folder_;
};

TEST_F(ComparisonTest, JudgesByTheToleranceOfTheDtype) {
  using Bits = std::vector<uint16_t>;
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, 2}).outcome, Outcome::kEqual);
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, 2.00001F}).outcome, Outcome::kClose);
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, 2.0001F}).outcome, Outcome::kApart);
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, 2.0001F}, 1e-3).outcome, Outcome::kClose);
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, 2.00001F}, 0).outcome, Outcome::kApart);
  EXPECT_EQ(one<double>("F64", {1}, {1 + 1e-15}).outcome, Outcome::kClose);
  EXPECT_EQ(one<double>("F64", {1}, {1 + 1e-10}).outcome, Outcome::kApart);
  EXPECT_EQ(one("BF16", Bits{0x3f80}, Bits{0x3f81}).outcome, Outcome::kClose);
  EXPECT_EQ(one("BF16", Bits{0x3f80}, Bits{0x3f88}).outcome, Outcome::kApart);
  EXPECT_EQ(one("F16", Bits{0x3c00}, Bits{0x3c01}).outcome, Outcome::kClose);
  EXPECT_EQ(one("F16", Bits{0x3c00}, Bits{0x3c10}).outcome, Outcome::kApart);
  // Whole numbers are equal or not, whatever the tolerance of floats.
  EXPECT_EQ(one<int64_t>("I64", {int64_t{1} << 62}, {(int64_t{1} << 62) + 1}, 0.5).outcome,
            Outcome::kApart);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(one<float>("F32", {1, 2}, {1, nan}, 10).outcome, Outcome::kApart);
  EXPECT_EQ(one<float>("F32", {nan, 2}, {nan, 2}).outcome, Outcome::kEqual);
  EXPECT_EQ(one<float>("F32", {0.0F}, {-0.0F}).outcome, Outcome::kClose);
  EXPECT_EQ(one<float>("F32", {0}, {1}).outcome, Outcome::kApart);
  EXPECT_EQ(one<float>("F32", {}, {}).outcome, Outcome::kEqual);
}

TEST_F(ComparisonTest, GoesInTheOrderInWhichTheyCameToBe) {
  const auto write = [&](const std::string& name, float gradient) {
    folder_.add("gradients.layers.0.up", {gradient});
    folder_.add("gradients.layers.1.up", {gradient});
    folder_.add("loss", {3});
    return folder_.write(name, {{kOrderKey, "loss\ngradients.layers.1.up\ngradients.layers.0.up"}});
  };
  const auto found = all(write("a", 1), write("b", 2));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "loss");
  EXPECT_EQ(found[0].outcome, Outcome::kEqual);
  EXPECT_EQ(found[1].name, "gradients.layers.1.up");
  EXPECT_EQ(found[1].layer, "layers.1");
  EXPECT_EQ(found[1].outcome, Outcome::kApart);
  EXPECT_EQ(found[1].difference.relative_norm, 1);
  EXPECT_DOUBLE_EQ(found[1].excess(), 1e5);
}

TEST_F(ComparisonTest, TellsWhatIsMissingOrOfAnotherShape) {
  folder_.add("both", {1, 2});
  folder_.add("shape", {1, 2}, {2, 1});
  folder_.add("mine", {1});
  const fs::path a = folder_.write("a");
  folder_.add("both", {1, 2});
  folder_.add("shape", {1, 2}, {1, 2});
  folder_.add("yours", {1});
  const auto found = all(a, folder_.write("b"));
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].outcome, Outcome::kEqual);
  EXPECT_EQ(found[1].name, "mine");
  EXPECT_EQ(found[1].outcome, Outcome::kOnlyInA);
  EXPECT_EQ(found[1].dtype_b, "");
  EXPECT_EQ(found[2].name, "shape");
  EXPECT_EQ(found[2].outcome, Outcome::kShapes);
  EXPECT_EQ(found[2].shape_b, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(found[3].name, "yours");
  EXPECT_EQ(found[3].outcome, Outcome::kOnlyInB);
  EXPECT_TRUE(std::isinf(found[3].excess()));
}

TEST_F(ComparisonTest, TwoDtypesHaveTheWiderTolerance) {
  folder_.add("x", {1, 1.005F});
  const fs::path a = folder_.write("a");
  folder_.add_as<uint16_t>("BF16", "x", {0x3f80, 0x3f80});
  const auto found = all(a, folder_.write("b"));
  EXPECT_EQ(found.at(0).outcome, Outcome::kClose);
  EXPECT_EQ(found.at(0).tolerance, 2e-2);
}

TEST_F(ComparisonTest, PrecisionWidensTheTolerance) {
  const auto write = [&](const std::string& name, float value, const std::string& precision) {
    folder_.add("x", {value});
    folder_.add_as<int32_t>("I32", "y", {static_cast<int32_t>(value)});
    return folder_.write(name, {{kPrecisionKey, precision}});
  };
  const auto tolerance = [&](const std::string& a, const std::string& b) {
    const auto found = all(write("a", 1, a), write("b", 1.01F, b));
    EXPECT_EQ(found.at(1).tolerance, 0) << "of whole numbers";
    return found.at(0).tolerance;
  };
  EXPECT_EQ(tolerance("BF16", "F32"), 2e-2);
  EXPECT_EQ(tolerance("F32", "F16"), 4e-3);
  EXPECT_EQ(tolerance("F64", "F64"), 1e-5) << "no narrower than it is stored";
  EXPECT_EQ(tolerance("bananas", ""), 1e-5);
  EXPECT_EQ(all(folder_.path() / "a", write("b", 1, "BF16"), 1e-3).at(0).tolerance, 1e-3);
}

TEST_F(ComparisonTest, RoundingAloneIsNoParting) {
  const auto write = [&](const std::string& name, float value) {
    folder_.add("key.bias", {value});
    return folder_.write(name, {{kRoundingKey, "key.bias\nabsent"}});
  };
  EXPECT_EQ(all(write("a", 1e-10F), write("b", -3e-10F)).at(0).outcome, Outcome::kClose);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(all(write("a", 1e-10F), write("b", nan)).at(0).outcome, Outcome::kApart);
}

TEST_F(ComparisonTest, FoldersHaveAFileAStep) {
  const auto write = [&](const std::string& name, float value) {
    folder_.add("loss", {value});
    folder_.write(name);
  };
  for (const int step : {1, 2, 10}) {
    write("a/step_" + std::to_string(step) + ".safetensors", 5);
    write("b/step_" + std::to_string(step) + ".safetensors", step == 1 ? 5 : 6);
  }
  write("a/step_11.safetensors", 5);
  put("a/notes.txt", "not a tensor file");
  const auto found = all(folder_.path() / "a", folder_.path() / "b");
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].file, "step_1.safetensors");
  EXPECT_EQ(found[0].outcome, Outcome::kEqual);
  EXPECT_EQ(found[1].file, "step_2.safetensors");
  EXPECT_EQ(found[1].outcome, Outcome::kApart);
  EXPECT_EQ(found[2].file, "step_10.safetensors");
  EXPECT_EQ(found[3].file, "step_11.safetensors");
  EXPECT_EQ(found[3].outcome, Outcome::kOnlyInA);
  EXPECT_EQ(found[3].name, "");
}

// The scale of a quantised tensor should not keep the rest from being compared.
TEST_F(ComparisonTest, LeavesOutWhatItDoesNotDecodeUnlessItIsEqual) {
  const std::vector<uint8_t> scale = {1, 2};
  const auto write = [&](const char* name, uint8_t last, const char* dtype, float weight) {
    folder_.add_as(dtype, "equal", scale, {2});
    folder_.add_as(dtype, "scale", std::vector<uint8_t>{1, last}, {2});
    folder_.add("weight", {weight});
    return folder_.write(name);
  };
  for (const char* dtype : {"F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    const std::vector<TensorComparison> same =
        all(write("a", 2, dtype, 1), write("b", 3, dtype, 1));
    ASSERT_EQ(same.size(), 3U) << dtype;
    EXPECT_EQ(same[0].outcome, Outcome::kEqual) << "bytes are compared whatever they stand for";
    EXPECT_EQ(same[1].outcome, Outcome::kLeftOut);
    EXPECT_FALSE(parts(same[1].outcome));
    EXPECT_EQ(same[1].dtype_b, dtype);
    EXPECT_EQ(same[2].outcome, Outcome::kEqual);
  }
  folder_.add_as("F4", "x", std::vector<uint8_t>{1}, {2});
  const fs::path small = folder_.write("small");
  folder_.add_as("C64", "x", std::vector<uint64_t>{1, 2}, {2});
  const fs::path complex = folder_.write("complex");
  folder_.add("x", {1, 2});
  const fs::path floats = folder_.write("floats");
  EXPECT_EQ(all(small, complex).at(0).outcome, Outcome::kLeftOut);
  EXPECT_EQ(all(floats, small).at(0).outcome, Outcome::kLeftOut);
  EXPECT_EQ(all(complex, floats, 1e9).at(0).outcome, Outcome::kLeftOut);
  EXPECT_EQ(all(complex, complex).at(0).outcome, Outcome::kEqual);
  folder_.add_as("F4", "x", std::vector<uint8_t>{1, 2}, {4});
  EXPECT_EQ(all(small, folder_.write("other")).at(0).outcome, Outcome::kShapes);
}

// Takes minutes with a search through all tensors for each tensor.
TEST_F(ComparisonTest, ManyTensorsTakeTimeInProportion) {
  constexpr size_t kCount = 30'000;
  for (const char* name : {"a", "b"}) {
    for (size_t i = 0; i < kCount; ++i) folder_.add("layers." + std::to_string(i) + ".x", {1});
    folder_.write(name);
  }
  EXPECT_EQ(all(folder_.path() / "a", folder_.path() / "b").size(), kCount);
}

TEST_F(ComparisonTest, RefusesWhatCannotBeCompared) {
  folder_.add("x", {1});
  const fs::path whole = folder_.write("whole.safetensors");
  folder_.add("y", {1});
  const fs::path other = folder_.write("other");
  folder_.add("x", {1});
  folder_.write("other_step/b.safetensors");
  fs::create_directory(folder_.path() / "empty");
  const fs::path none = folder_.write("none");

  expect_refusal(whole, other, "no tensor in common");
  expect_refusal(whole, folder_.path(), "is a folder");
  expect_refusal(whole, folder_.path() / "absent", "absent: cannot be opened");
  expect_refusal(folder_.path(), folder_.path() / "absent", "is a folder");
  expect_refusal(folder_.path(), folder_.path() / "empty", "no file whose name ends in");
  expect_refusal(folder_.path(), folder_.path() / "other_step", "has no file of a name that is in");
  EXPECT_NE(refusal(none, none).find("has no tensors"), std::string::npos);
  expect_refusal(whole, none, "no tensor in common");

  std::ifstream file(whole, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  expect_refusal(whole, put("short", bytes.substr(0, bytes.size() - 1)), "cut short");
  expect_refusal(whole, put("text", "this is not a file of tensors"), "its header claims");
  expect_refusal(whole, "/dev/null", "is not a regular file");
}

}  // namespace
}  // namespace keel::tensorfile
