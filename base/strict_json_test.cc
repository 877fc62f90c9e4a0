// SPDX-License-Identifier: Apache-2.0
// Texts with one reading, and texts that are refused because two readers could differ.
#include "base/strict_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace keel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename Json>
class StrictJsonTest : public testing::Test {
 protected:
  // The error of parsing |text|; empty if |text| is accepted. |text| may hold NUL bytes.
  static std::string refusal(const std::string& text, int deepest = kDeepestJson) {
    Json parsed = "untouched";
    std::string error;
    const bool is_taken = parse_json(text, &parsed, &error, deepest);
    EXPECT_EQ(is_taken, error.empty()) << text << ": " << error;
    EXPECT_TRUE(is_taken || parsed.is_null()) << text;
    EXPECT_EQ(error.find("json.exception"), std::string::npos) << error;
    return error;
  }
};

using Kinds = testing::Types<json, ordered_json>;
TYPED_TEST_SUITE(StrictJsonTest, Kinds);

TYPED_TEST(StrictJsonTest, ValuesAreThoseOfTheLibrary) {
  for (const std::string text : {"null", "true", "-3", "18446744073709551615", "0.5", "1e30",
                                 "\"a\\u00e4\\n\"", "[]", "{}", " [1, [2, {\"a\": []}], {}] \n",
                                 R"({"z": 1, "a": {"z": [null, "x"], "b": {}}, "m": false})"}) {
    TypeParam parsed;
    std::string error;
    ASSERT_TRUE(parse_json(text, &parsed, &error)) << text << ": " << error;
    EXPECT_EQ(parsed.dump(), TypeParam::parse(text).dump());
  }
}

TYPED_TEST(StrictJsonTest, KeyThatIsThereTwiceIsNamedWithItsPlace) {
  EXPECT_EQ(this->refusal(R"({"a": 1, "b": 2, "a": 1})"), "the key 'a' is there twice");
  EXPECT_EQ(this->refusal(R"({"a": 1, "\u0061": 2})"), "the key 'a' is there twice")
      << "two spellings of one key";
  EXPECT_EQ(this->refusal(R"({"x": {"y": [0, {"k": 1, "k": 1}]}})"),
            "the key 'k' is there twice in x.y[1]");
  EXPECT_EQ(this->refusal(R"([{}, {"\u001b[2J": 1, "\u001b[2J": 1}])"),
            "the key '\\x1b[2J' is there twice in [1]");
  EXPECT_EQ(this->refusal(R"({"a": {"k": 1}, "b": {"k": 1}, "k": ["k", "k"]})"), "")
      << "of several objects";
}

TYPED_TEST(StrictJsonTest, NothingButBlanksIsBehindTheValue) {
  EXPECT_EQ(this->refusal("{} \t\r\n "), "");
  EXPECT_EQ(this->refusal("{}x"),
            "more text is behind the end of the JSON value, at line 1, column 3");
  EXPECT_EQ(this->refusal("{\n}\n {}"),
            "more text is behind the end of the JSON value, at line 3, column 2");
  EXPECT_NE(this->refusal("1 2"), "");
  EXPECT_EQ(this->refusal(std::string("{}\n\0", 4)), "it has a NUL byte, at line 2, column 1");
  EXPECT_EQ(this->refusal(std::string("{}\0{}", 5)), "it has a NUL byte, at line 1, column 3");
  EXPECT_NE(this->refusal(std::string("{\0}", 3)), "");
  EXPECT_NE(this->refusal(std::string("\0", 1)), "");
  EXPECT_NE(this->refusal("{} // no comments"), "");
}

TYPED_TEST(StrictJsonTest, ByteOrderMarksAreRefused) {
  EXPECT_EQ(this->refusal("\xef\xbb\xbf{}"), "it begins with a byte-order mark");
  EXPECT_NE(this->refusal("\xff\xfe{"), "");
  EXPECT_NE(this->refusal(" \xef\xbb\xbf{}"), "") << "nor behind a blank";
}

TYPED_TEST(StrictJsonTest, MistakesAreToldWithTheirPlace) {
  EXPECT_EQ(this->refusal(""), "it is empty");
  EXPECT_EQ(this->refusal(" \n"), "it is empty");
  EXPECT_EQ(this->refusal("{\"a\":\n [1,"), "it ends too early, at line 2, column 5");
  EXPECT_EQ(this->refusal("\"a"), "it ends too early, at line 1, column 3");
  EXPECT_EQ(this->refusal("[1,\n2,,3]"), "it is not JSON at line 2, column 3, near '2,,'");
  EXPECT_EQ(this->refusal("[nil]"), "it is not JSON at line 1, column 3, near '[ni'");
  EXPECT_EQ(this->refusal("[1e999]"), "the number '1e999' is too large, at line 1, column 6");
  for (const std::string text :
       {"{'a': 1}", "{a: 1}", "[01]", "[+1]", "[.5]", "[1.]", "NaN", "[1,]", "{\"a\" 1}",
        "\"\x01\"", "\"\xff\"", "\"\xc0\xaf\"", "\"\\ud800\"", "]", "}"}) {
    EXPECT_NE(this->refusal(text), "") << text;
  }
}

TYPED_TEST(StrictJsonTest, DepthIsBounded) {
  EXPECT_EQ(this->refusal("[[[]]]", 3), "");
  EXPECT_EQ(this->refusal("[[[1]]]", 2), "it nests deeper than 2 levels in [0][0]");
  EXPECT_EQ(this->refusal(R"({"a": {"b": {}}})", 2), "it nests deeper than 2 levels in a.b");
  EXPECT_EQ(this->refusal("7", 0), "");
  EXPECT_NE(this->refusal(std::string(1'000'000, '[')), "");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"x\":";
  EXPECT_NE(this->refusal(objects), "");
  EXPECT_EQ(this->refusal(R"({"[[[[\"{{{{": "]]"})", 1), "") << "brackets of names are none";
}

TYPED_TEST(StrictJsonTest, MessagesStayShort) {
  const std::string key(100'000, 'k');
  EXPECT_LT(this->refusal("{\"" + key + "\": 1, \"" + key + "\": 1}").size(), 200U);
  EXPECT_LT(this->refusal("{\"" + key + "\": {\"a\": 1, \"a\": 1}}").size(), 400U);
  EXPECT_LT(this->refusal("[" + std::string(100'000, '1') + "x]").size(), 200U);
}

TEST(StrictJsonObjectTest, OrderedObjectsKeepTheirOrder) {
  ordered_json parsed;
  std::string error;
  ASSERT_TRUE(parse_json(R"({"z": 1, "a": 2, "m": 3})", &parsed, &error)) << error;
  EXPECT_EQ(parsed.dump(), R"({"z":1,"a":2,"m":3})");
  parsed["a"] = 4;
  EXPECT_EQ(parsed.size(), 3U);
}

TEST(StrictJsonObjectTest, MembersAreTakenOneByOne) {
  std::string taken;
  std::string error;
  std::set<std::string> keys;
  const auto take = [&](const std::string& key, const json& value) {
    taken += key + "=" + value.dump() + ";";
    if (!keys.insert(key).second) return JsonMember::kTwice;
    return key == "end" ? JsonMember::kEnd : JsonMember::kTaken;
  };
  EXPECT_TRUE(
      parse_json_members(R"({"z": [1, {"a": 2}], "a": null, "m": {"z": {}}} )", take, &error));
  EXPECT_EQ(taken, R"(z=[1,{"a":2}];a=null;m={"z":{}};)");
  EXPECT_TRUE(parse_json_members("{}", take, &error));
  EXPECT_FALSE(parse_json_members(R"({"end": 1, "behind": 2})", take, &error));
  EXPECT_EQ(error, "") << "it was the caller's end";
  EXPECT_EQ(taken.find("behind"), std::string::npos);
  const std::pair<std::string, std::string> cases[] = {
      {R"({"a": 1, "b": [], "a": 2})", "the key 'a' is there twice"},
      {R"({"a": {"k": 1, "k": 2}})", "the key 'k' is there twice in a"},
      {R"({"a": [{"k": 1, "k": 2}]})", "the key 'k' is there twice in a[0]"},
      {"[1, {}]", "it is not a JSON object"},
      {"7", "it is not a JSON object"},
      {"{} {}", "more text is behind the end of the JSON value, at line 1, column 4"},
      {R"({"a": [[[1]]]})", "it nests deeper than 3 levels in a[0][0]"},
      {"\xef\xbb\xbf{}", "it begins with a byte-order mark"}};
  for (const auto& [text, expected] : cases) {
    keys.clear();
    EXPECT_FALSE(parse_json_members(text, take, &error, /*deepest=*/3)) << text;
    EXPECT_EQ(error, expected);
  }
}

// Takes a minute with a search through all members for each member, half a second without.
TEST(StrictJsonObjectTest, LargeObjectsTakeTimeInProportion) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":{\"a\":[1],\"b\":{}}";
  }
  text += "}";
  json plain;
  ordered_json ordered;
  std::string error;
  EXPECT_TRUE(parse_json(text, &plain, &error)) << error;
  EXPECT_TRUE(parse_json(text, &ordered, &error)) << error;
  EXPECT_EQ(plain.size(), 100'000U);
  EXPECT_EQ(ordered.size(), 100'000U);
}

}  // namespace
}  // namespace keel
