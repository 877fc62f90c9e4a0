// SPDX-License-Identifier: Apache-2.0
#include "base/json_value.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace keel {
namespace {

const nlohmann::json kJson = nlohmann::json::parse(R"({
  "name": "chip", "count": 7, "most": 18446744073709551615, "below": -7, "part": 2.5, "is": true,
  "none": null, "list": [{"id": 1}, {"id": "x"}]})");

std::string refusal(const std::function<void(const JsonValue&)>& read) {
  try {
    read(JsonValue(kJson));
    return {};
  } catch (const JsonError& error) {
    return error.what();
  }
}

TEST(JsonValueTest, MembersAreRead) {
  const JsonValue root(kJson);
  EXPECT_EQ(root.at("name").text(), "chip");
  EXPECT_EQ(root.at("count").count<uint8_t>(), 7);
  EXPECT_EQ(root.at("most").count<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(root.at("below").integer(), -7);
  EXPECT_EQ(root.at("count").integer(), 7);
  EXPECT_EQ(root.at("part").number(), 2.5);
  EXPECT_EQ(root.at("count").number(), 7);
  EXPECT_TRUE(root.at("is").boolean());
  EXPECT_TRUE(root.has("none"));
  EXPECT_FALSE(root.has("absent"));
  ASSERT_EQ(root.at("list").elements().size(), 2U);
  EXPECT_EQ(root.at("list").elements()[0].at("id").count<int>(), 1);
}

TEST(JsonValueTest, MistakesAreToldWithTheirPlace) {
  const auto expect = [](const char* text, const std::function<void(const JsonValue&)>& read) {
    EXPECT_EQ(refusal(read), text);
  };
  expect("absent is missing", [](const JsonValue& root) { root.at("absent"); });
  expect("list[0].absent is missing",
         [](const JsonValue& root) { root.at("list").elements()[0].at("absent"); });
  expect("list[1].id is a string, not a whole number from 0 to 4294967295",
         [](const JsonValue& root) { root.at("list").elements()[1].at("id").count<uint32_t>(); });
  expect("it is an object, not an array", [](const JsonValue& root) { root.elements(); });
  expect("name is a string, not an object", [](const JsonValue& root) { root.at("name").at("x"); });
  expect("name is a string, not an object",
         [](const JsonValue& root) { root.at("name").has("x"); });
  expect("none is null, not a string", [](const JsonValue& root) { root.at("none").text(); });
  expect("list is an array, not true or false",
         [](const JsonValue& root) { root.at("list").boolean(); });
}

// nlohmann's own conversions truncate, round, or take true for 1.
TEST(JsonValueTest, NumbersAreWhatTheyAreTakenFor) {
  EXPECT_EQ(refusal([](const JsonValue& root) { root.at("part").integer(); }),
            "part is 2.5, not a whole number of 64 bits");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("most").integer(); }), "");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("below").count<uint32_t>(); }), "");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("most").count<uint32_t>(); }), "");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("is").integer(); }), "");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("is").count<uint32_t>(); }), "");
  EXPECT_EQ(refusal([](const JsonValue& root) { root.at("is").number(); }),
            "is is true, not a number");
  EXPECT_NE(refusal([](const JsonValue& root) { root.at("count").boolean(); }), "");
}

}  // namespace
}  // namespace keel
