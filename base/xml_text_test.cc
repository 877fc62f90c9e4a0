// SPDX-License-Identifier: Apache-2.0
#include "base/xml_text.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(XmlTextTest, MarkupBecomesReferences) {
  EXPECT_EQ(xml_text("a < b && \"c\" > d"), "a &lt; b &amp;&amp; &quot;c&quot; &gt; d");
  EXPECT_EQ(xml_text("one\n\ttwo"), "one&#10;&#9;two");
}

TEST(XmlTextTest, Utf8StaysAndOtherBytesBecomeQuestionMarks) {
  EXPECT_EQ(xml_text("Grün …"), "Grün …");
  EXPECT_EQ(xml_text("\xff\x80 \x1b[0m \xef\xbf\xbe"), "?? ?[0m ?");
  EXPECT_EQ(xml_text(""), "");
}

}  // namespace
}  // namespace keel
