// SPDX-License-Identifier: Apache-2.0
// Tests `keel compare` as a user sees it: output and exit codes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "tensorfile/order.h"
#include "tensorfile/testing/tensor_folder.h"
#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::lines;
using keel::cli::testing::Result;
using nlohmann::json;

class Compare : public testing::Test {
 protected:
  // Writes a step of a run with two layers; |value| is in the second.
  std::string step(const std::string& name, float value) {
    folder_.add("embedding", {1, 2, 3});
    folder_.add("layers.0.output", {1, 2, 3});
    folder_.add("layers.1.output", {1, value, 3}, {1, 3});
    folder_.add("loss", {value});
    return folder_.write(
        name, {{keel::tensorfile::kOrderKey, "embedding\nlayers.0.output\nlayers.1.output\nloss"}});
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  static void expect_last_line(const Result& result, const std::string& part) {
    ASSERT_FALSE(result.out.empty()) << result.error;
    EXPECT_TRUE(contains(lines(result.out).back(), part)) << result.out;
  }

  keel::tensorfile::testing::TensorFolder folder_;
};

TEST_F(Compare, SameRunsAreTheSame) {
  const std::string a = step("a", 2);
  const Result result = keel({"compare", a, a});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "the same to the bit: 4 tensors\n");
}

TEST_F(Compare, CloseRunsAreTheSameToo) {
  const Result result = keel({"compare", step("a", 2), step("b", 2.000001F)});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  expect_last_line(result,
                   "the same within their tolerance: 4 tensors, 2 of them to the bit; the "
                   "worst is loss, which differs by 4.77e-07 of its norm");
}

TEST_F(Compare, NamesTheFirstTensorAndItsLayer) {
  const Result result = keel({"compare", step("a", 2), step("b", 2.5)});
  EXPECT_EQ(result.exit_code, 1) << result.error;
  expect_last_line(result,
                   "they part at layers.1.output, layer layers.1: it differs by 0.134 of "
                   "its norm, where 1e-05 is tolerated; at most by 0.5, at [0,1]: 2 and "
                   "2.5; 2 of 4 tensors part");
  const std::vector<std::string> all = lines(result.out);
  ASSERT_GE(all.size(), 3U);
  EXPECT_TRUE(contains(all[1], "loss")) << "the worst comes first\n" << result.out;
  const Result in_order = keel({"compare", path("a"), path("b"), "--all"});
  EXPECT_TRUE(contains(lines(in_order.out).at(1), "layers.1.output")) << in_order.out;
  EXPECT_EQ(keel({"compare", path("a"), path("b"), "--rtol", "0.5"}).exit_code, 0);
  EXPECT_EQ(keel({"compare", path("a"), path("b"), "--rtol", "0"}).exit_code, 1);
}

TEST_F(Compare, FoldersPartInAStep) {
  for (const int number : {1, 2, 10}) {
    const std::string name = "/step_" + std::to_string(number) + ".safetensors";
    step("a" + name, 2);
    step("b" + name, number == 1 ? 2 : std::numeric_limits<float>::quiet_NaN());
  }
  const Result result = keel({"compare", path("a"), path("b"), "--json", path("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.error;
  expect_last_line(result,
                   "they part at layers.1.output, layer layers.1, of step_2.safetensors: "
                   "it has 1 NaN or infinities that one alone has, the first at [0,1]: 2 "
                   "and nan; 4 of 12 tensors of 3 steps part");
  std::ifstream file(path("out.json"));
  const json out = json::parse(file);
  EXPECT_EQ(out.at("same"), false);
  EXPECT_EQ(out.at("tensors"), 12);
  EXPECT_EQ(out.at("steps"), 3);
  EXPECT_EQ(out.at("equal"), 8);
  EXPECT_EQ(out.at("first").at("file"), "step_2.safetensors");
  EXPECT_EQ(out.at("first").at("tensor"), "layers.1.output");
  EXPECT_EQ(out.at("first").at("layer"), "layers.1");
  EXPECT_EQ(out.at("first").at("unlike"), 1);
  EXPECT_EQ(out.at("first").at("first_unlike").at("b"), "nan");
  EXPECT_EQ(out.at("first").at("shape_a"), (std::vector<int>{1, 3}));
  EXPECT_EQ(out.at("differing").size(), 4U);

  step("a/step_11.safetensors", 2);
  step("b/step_2.safetensors", 2);
  step("b/step_10.safetensors", 2);
  const Result shorter = keel({"compare", path("a"), path("b")});
  EXPECT_EQ(shorter.exit_code, 1);
  expect_last_line(shorter, "they part at step_11.safetensors: it is only in A");
}

TEST_F(Compare, AnotherModelsTensorsPart) {
  const std::string a = step("a", 2);
  folder_.add("embedding", {1, 2}, {2});
  folder_.add("loss", {2});
  const std::string other = folder_.write("other");
  const Result result = keel({"compare", a, other});
  EXPECT_EQ(result.exit_code, 1);
  expect_last_line(result, "they part at embedding: it has the shape [3] in A, [2] in B; 3 of 4");
  EXPECT_TRUE(contains(result.out, "only in A")) << result.out;
}

TEST_F(Compare, SaysHowManyItDoesNotShow) {
  for (const float value : {1.0F, 2.0F}) {
    for (int i = 0; i < 25; ++i) folder_.add("layers." + std::to_string(i) + ".x", {value});
    folder_.write(value == 1 ? "a" : "b");
  }
  const Result result = keel({"compare", path("a"), path("b")});
  EXPECT_TRUE(contains(result.out, "5 more that differ less; --all")) << result.out;
  EXPECT_TRUE(contains(result.out, "part at layers.0.x")) << result.out;
  EXPECT_EQ(lines(keel({"compare", path("a"), path("b"), "--all"}).out).size(), 28U);
}

// A double cannot represent 2^53 + 1, nor the largest integer of either type.
TEST_F(Compare, LongIntegersAreToldToTheLastDigit) {
  const auto write = [&](const std::string& name, int64_t step, uint64_t hash, int64_t least) {
    folder_.add_as("I64", "step", std::vector<int64_t>{step});
    folder_.add_as("U64", "hash", std::vector<uint64_t>{hash});
    folder_.add_as("I64", "least", std::vector<int64_t>{least});
    return folder_.write(name, {{keel::tensorfile::kOrderKey, "step\nhash\nleast"}});
  };
  const std::string a = write("a", 9007199254740993, UINT64_MAX, INT64_MIN + 1);
  const std::string b = write("b", 9007199254740995, UINT64_MAX - 1, INT64_MIN);
  const Result result = keel({"compare", a, b, "--json", path("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.error;
  expect_last_line(result, "at most by 2, at [0]: 9007199254740993 and 9007199254740995; 3 of 3");
  std::ifstream file(path("out.json"));
  const json differing = json::parse(file).at("differing");
  const auto place = [&](size_t tensor) { return differing.at(tensor).at("largest_absolute_at"); };
  EXPECT_EQ(place(0).at("a"), 9007199254740993);
  EXPECT_EQ(place(0).at("b"), 9007199254740995);
  EXPECT_EQ(place(1).at("a"), UINT64_MAX);
  EXPECT_EQ(place(1).at("b"), UINT64_MAX - 1);
  EXPECT_EQ(place(2).at("a"), INT64_MIN + 1);
  EXPECT_EQ(place(2).at("b"), INT64_MIN);
}

// Names are arbitrary and may contain terminal escapes.
TEST_F(Compare, NamesDoNothingToATerminal) {
  const std::string name = "layers.0.\x1b[2Jweight\n\u009b1m\"\u00e4";
  for (const float value : {1.0F, 2.0F}) {
    folder_.add("x", {1});
    folder_.add(name, {value});
    folder_.write((value == 1 ? "a/step\x1b_1" : "b/step\x1b_1") + std::string(".safetensors"));
  }
  const Result result = keel({"compare", path("a"), path("b"), "--json", path("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.error;
  EXPECT_FALSE(contains(result.out, "\x1b")) << result.out;
  EXPECT_FALSE(contains(result.out, "\u009b")) << result.out;
  expect_last_line(result, "part at layers.0.\\x1b[2Jweight\\x0a\\xc2\\x9b1m\"\u00e4, layer ");
  expect_last_line(result, ", of step\\x1b_1.safetensors: it");
  EXPECT_EQ(lines(result.out).size(), 4U) << result.out;
  std::ifstream file(path("out.json"));
  EXPECT_EQ(json::parse(file).at("first").at("tensor"), name) << "a program reads it as it is";

  folder_.add(name, {1, 2});
  const std::string cut = folder_.write("cut");
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 4);
  const Result refused = keel({"compare", cut, cut});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_FALSE(contains(refused.error, "\x1b")) << refused.error;
  EXPECT_TRUE(contains(refused.error, "layers.0.\\x1b[2J")) << refused.error;
}

// Keel does not know the values of the dtype of "scale".
TEST_F(Compare, WhatIsLeftOutIsNamedAndKeepsTheRunsFromBeingTheSame) {
  const auto write = [&](const std::string& name, uint8_t scale, float weight, int scales = 1) {
    for (int i = 0; i < scales; ++i) {
      folder_.add_as("F8_E8M0", "layers." + std::to_string(i) + ".scale",
                     std::vector<uint8_t>{1, scale});
    }
    folder_.add("weight", {weight});
    return folder_.write(name);
  };
  const std::string a = write("a", 1, 1);
  const Result left_out = keel({"compare", a, write("b", 2, 1), "--json", path("out.json")});
  EXPECT_EQ(left_out.exit_code, 3) << left_out.error;
  EXPECT_TRUE(contains(left_out.out, "left out: both have the tensor, their bytes differ"));
  EXPECT_TRUE(contains(left_out.out, "  layers.0.scale, F8_E8M0 [2]\n")) << left_out.out;
  expect_last_line(left_out, "the same to the bit: 1 tensor; 1 more is left out");
  std::ifstream file(path("out.json"));
  const json out = json::parse(file);
  EXPECT_EQ(out.at("same"), false);
  EXPECT_EQ(out.at("first"), nullptr);
  EXPECT_EQ(out.at("differing").size(), 0U);
  ASSERT_EQ(out.at("left_out").size(), 1U);
  EXPECT_EQ(out.at("left_out")[0].at("tensor"), "layers.0.scale");
  EXPECT_EQ(out.at("left_out")[0].at("outcome"), "left out");
  EXPECT_EQ(out.at("left_out")[0].at("dtype_a"), "F8_E8M0");

  const Result part = keel({"compare", a, write("c", 2, 2)});
  EXPECT_EQ(part.exit_code, 1);
  expect_last_line(part, "they part at weight");
  expect_last_line(part, "1 of 1 tensor part; 1 more is left out");
  const Result close = keel({"compare", a, write("d", 2, 1.000001F)});
  EXPECT_EQ(close.exit_code, 3);
  expect_last_line(close, "of its norm; 1 more is left out");
  const Result equal = keel({"compare", a, write("e", 1, 1)});
  EXPECT_EQ(equal.exit_code, 0);
  EXPECT_EQ(equal.out, "the same to the bit: 2 tensors\n");

  const std::string many = write("many", 1, 1, 25);
  const std::string others = write("others", 2, 1, 25);
  EXPECT_TRUE(contains(keel({"compare", many, others}).out, "  and 5 more; --all names them"));
  EXPECT_EQ(lines(keel({"compare", many, others, "--all"}).out).size(), 28U);

  folder_.add_as("F8_E8M0", "x", std::vector<uint8_t>{1});
  const std::string one = folder_.write("one");
  folder_.add_as("F8_E8M0", "x", std::vector<uint8_t>{2});
  const Result none = keel({"compare", one, folder_.write("two")});
  EXPECT_EQ(none.exit_code, 3);
  expect_last_line(none, "nothing is compared: all 1 are left out");
}

TEST_F(Compare, WhatCannotBeComparedIsAMistake) {
  const std::string a = step("a", 2);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.begin(), "compare");
    const Result result = keel(arguments);
    EXPECT_EQ(result.exit_code, 2) << part << result.out;
    EXPECT_TRUE(contains(result.error, part)) << part << " is not in " << result.error;
    EXPECT_EQ(result.out, "");
  };
  refused({a}, "B");
  refused({a, path("absent")}, "absent: cannot be opened");
  refused({a, path("")}, "is a folder");
  std::ofstream(path("text")) << "not a file of tensors";
  refused({path("text"), a}, "text: its header claims");
  folder_.add("x", {1});
  refused({a, folder_.write("x")}, "no tensor in common");
  refused({a, a, "--rtol", "nan"}, "--rtol");
  refused({a, a, "--rtol", "-1"}, "--rtol");
  refused({a, a, "--json", path("no/such/folder")}, "--json");
}

TEST_F(Compare, AFailureLeavesTheReportOfBefore) {
  const std::string a = step("a", 2);
  std::ofstream(path("out.json")) << "of before";
  EXPECT_EQ(keel({"compare", a, path("absent"), "--json", path("out.json")}).exit_code, 2);
  std::ifstream file(path("out.json"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "of before");
}

}  // namespace
