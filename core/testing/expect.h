// SPDX-License-Identifier: Apache-2.0
// What tests expect of calls of keel.h.
#ifndef KEEL_CORE_TESTING_EXPECT_H_
#define KEEL_CORE_TESTING_EXPECT_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <string>

#define EXPECT_KEEL_OK(call) EXPECT_EQ((call), KEEL_OK) << keel_last_error()
#define ASSERT_KEEL_OK(call) ASSERT_EQ((call), KEEL_OK) << keel_last_error()

// |call| returns |code|, and its text has |text| in it.
#define EXPECT_FAILS(code, text, call)                                      \
  do {                                                                      \
    EXPECT_EQ(code, call) << keel_last_error();                             \
    EXPECT_NE(std::string(keel_last_error()).find(text), std::string::npos) \
        << "no '" << (text) << "' in: " << keel_last_error();               \
  } while (false)

#endif  // KEEL_CORE_TESTING_EXPECT_H_
