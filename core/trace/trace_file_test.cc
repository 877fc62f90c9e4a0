#include "core/trace/trace_file.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace keel
