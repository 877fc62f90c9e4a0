// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(PrintableTest, LeavesWhatAReaderCanRead) {
  for (const char* text : {"", "layers.0.weight", "a \\ b", "\u00e4 \u2202 \U0001f600", "\u00a0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, ControlCharactersBecomeText) {
  EXPECT_EQ(printable("a\x1b[2J\n"), "a\\x1b[2J\\x0a");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\u0080\u009b\u009f"), "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f");
}

TEST(PrintableTest, SoDoBytesThatAreNoText) {
  EXPECT_EQ(printable("\x9b"), "\\x9b");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3") << "cut short";
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "longer than need be";
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a pair";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "behind the last one";
  EXPECT_EQ(printable("\xff\u00e4"), "\\xff\u00e4");
}

}  // namespace
}  // namespace keel
