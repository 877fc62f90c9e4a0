// SPDX-License-Identifier: Apache-2.0
#include "core/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace keel {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonString, EscapesWhatJsonHasNoPlaceFor) {
  EXPECT_EQ(escaped("copy"), "\"copy\"");
  EXPECT_EQ(escaped(""), "\"\"");
  EXPECT_EQ(escaped("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(escaped("a\nb\x01\x7f"), "\"a\\u000ab\\u0001\\u007f\"");
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "\"a\\u0000b\"");
}

TEST(JsonString, KeepsUtf8AndReplacesWhatIsNone) {
  EXPECT_EQ(escaped("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  for (const char* none : {"\x80", "\xC0", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xF5", "\xFF",
                           "\xC0\x80", "\xE0\x80\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(escaped(none).substr(0, 7), "\"\\ufffd") << escaped(none);
    for (const char c : escaped(none)) EXPECT_GE(c, ' ');
  }
  EXPECT_EQ(escaped("a\xFFz"), "\"a\\ufffdz\"");
}

TEST(JsonWriterTest, NestsAndIndents) {
  std::string out;
  JsonWriter json(&out);
  json.begin_object();
  json.key("name").text("a \"chip\"");
  json.key("none").text_or_null(nullptr);
  json.key("empty").begin_array();
  json.end_array();
  json.key("list").begin_array();
  json.number(-1);
  json.number(UINT64_MAX);
  json.number(0.1);
  json.number(3.2e15);
  json.number(std::numeric_limits<double>::quiet_NaN());
  json.boolean(true);
  json.begin_object();
  json.end_object();
  json.end_array();
  json.key("last").boolean(false);
  json.end_object();
  EXPECT_EQ(out, R"({
  "name": "a \"chip\"",
  "none": null,
  "empty": [],
  "list": [
    -1,
    18446744073709551615,
    0.1,
    3200000000000000,
    null,
    true,
    {}
  ],
  "last": false
})");
}

TEST(JsonWriterTest, OneLine) {
  std::string out;
  JsonWriter json(&out, JsonLayout::kOneLine);
  json.begin_object();
  json.key("name").text("a \"chip\"");
  json.key("empty").begin_array();
  json.end_array();
  json.key("list").begin_array();
  json.rounded(0.123456, 4);
  json.rounded(250, 4);
  json.rounded(std::numeric_limits<double>::infinity(), 4);
  json.end_array();
  json.key("object").begin_object();
  json.end_object();
  json.end_object();
  EXPECT_EQ(out,
            R"({"name": "a \"chip\"", "empty": [], "list": [0.1235, 250, null], "object": {}})");
}

}  // namespace
}  // namespace keel
