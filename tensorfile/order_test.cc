// SPDX-License-Identifier: Apache-2.0
#include "tensorfile/order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tensorfile/testing/tensor_folder.h"

namespace keel::tensorfile {
namespace {

using testing::TensorFolder;
using Names = std::vector<std::string>;

TEST(NaturalOrder, ComparesNumbersAsNumbers) {
  Names names = {"layers.10.up",
                 "layers.2.up",
                 "head",
                 "layers.2.down",
                 "layers.02.up",
                 "layers.2",
                 "",
                 "10",
                 "9",
                 "layers.1.x12.y"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, (Names{"", "9", "10", "head", "layers.1.x12.y", "layers.2", "layers.2.down",
                          "layers.02.up", "layers.2.up", "layers.10.up"}));
  EXPECT_FALSE(natural_less("a", "a"));
  // Beyond any integer.
  EXPECT_TRUE(natural_less("99999999999999999999998", "99999999999999999999999"));
  EXPECT_TRUE(natural_less("99999999999999999999999", "100000000000000000000000"));
}

TEST(Layer, IsTheFirstNumberAndTheWordBeforeIt) {
  EXPECT_EQ(layer_of("layers.3.attention.query.weight"), "layers.3");
  EXPECT_EQ(layer_of("transformer.h.11.attn.c_attn.bias"), "h.11");
  EXPECT_EQ(layer_of("model.layers.0"), "layers.0");
  EXPECT_EQ(layer_of("encoder.block.2.layer.1.query"), "block.2");
  EXPECT_EQ(layer_of("norm.weight"), "");
  EXPECT_EQ(layer_of("conv1d.weight"), "");
  EXPECT_EQ(layer_of("3.weight"), "");
  EXPECT_EQ(layer_of("a..3"), "");
  EXPECT_EQ(layer_of(""), "");
  EXPECT_EQ(layer_of("..."), "");
}

TEST(Order, IsTheOneThatTheFileTells) {
  TensorFolder folder;
  const auto file = [&](const std::string& name, const Names& tensors, const Metadata& metadata) {
    for (const std::string& tensor : tensors) folder.add(tensor, {1});
    return folder.write(name, metadata);
  };
  const SafetensorsFile plain(file("plain", {"x.10", "x.9", "y"}, {}));
  EXPECT_EQ(ordered_names(plain), (Names{"x.9", "x.10", "y"}));
  const SafetensorsFile told(
      file("told", {"x.10", "x.9", "y", "z"}, {{kOrderKey, "z\nx.10\nabsent\n\nz\ny"}}));
  EXPECT_EQ(ordered_names(told), (Names{"z", "x.10", "y", "x.9"}));

  EXPECT_EQ(ordered_names(told, plain), (Names{"z", "x.10", "y", "x.9"}));
  EXPECT_EQ(ordered_names(plain, told), (Names{"z", "x.10", "y", "x.9"}));
  const SafetensorsFile more(file("more", {"a", "x.9", "x.95", "x.96", "y", "zz"}, {}));
  EXPECT_EQ(ordered_names(plain, more), (Names{"a", "x.9", "x.95", "x.96", "x.10", "y", "zz"}));
}

}  // namespace
}  // namespace keel::tensorfile
