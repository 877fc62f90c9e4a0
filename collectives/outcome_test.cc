// SPDX-License-Identifier: Apache-2.0
#include "collectives/outcome.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace keel {
namespace {

TEST(OutcomeTest, CodeAndTextAreKept) {
  const Outcome outcome(failure(KEEL_OUT_OF_MEMORY, "no stream"));
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.code(), KEEL_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.text(), "no stream");
  EXPECT_TRUE(Outcome(Status()).ok());
  EXPECT_EQ(Outcome(Status()).text(), "");
}

TEST(OutcomeTest, LongTextIsCut) {
  const std::string text(1000, 'x');
  EXPECT_EQ(Outcome(failure(KEEL_INTERNAL, "{}", text)).text(), text.substr(0, 251));
}

TEST(OutcomeTest, TextWithoutEndIsReadNoFurther) {
  Outcome outcome;
  std::memset(static_cast<void*>(&outcome), 'x', sizeof(outcome));
  EXPECT_EQ(outcome.text(), std::string(252, 'x'));
}

}  // namespace
}  // namespace keel
