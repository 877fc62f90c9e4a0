// SPDX-License-Identifier: Apache-2.0
// Expectations of tests about calls of keel.h.
#ifndef KEEL_CORE_TESTING_EXPECT_H_
#define KEEL_CORE_TESTING_EXPECT_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <string>

#define EXPECT_KEEL_OK(call) EXPECT_EQ((call), KEEL_OK) << keel_last_error()
#define ASSERT_KEEL_OK(call) ASSERT_EQ((call), KEEL_OK) << keel_last_error()

// Expects |call| to return |code| with |text| in its failure text.
#define EXPECT_FAILS(code, text, call)                                      \
  do {                                                                      \
    EXPECT_EQ(code, call) << keel_last_error();                             \
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos) \
        << "no '" << (text) << "' in: " << keel_last_error();               \
  } while (false)

#endif  // KEEL_CORE_TESTING_EXPECT_H_
