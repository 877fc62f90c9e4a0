// SPDX-License-Identifier: Apache-2.0
// Workers that are one rank each and do what they are told, line by line.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_TOLD_RANK_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_TOLD_RANK_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <functional>
#include <string>

namespace keel::testing {

// For workers: this process is rank |rank| of |world| of a job that meets at |meeting|, as if
// `keel run` had started it, and ends with the test, whatever becomes of it.
void enter_job(const std::string& rank, const std::string& world, const std::string& meeting);

// For workers: answers each line of standard input, up to its end, with the status that |obey|
// returns for it and, of a failure, Keel's text, in one line.
void answer_commands(const std::function<keel_status(const std::string& command)>& obey);

// Whether |text| is in what a worker has answered.
::testing::AssertionResult says(const std::string& text, const std::string& said);
#define EXPECT_SAYS(text, expression) EXPECT_TRUE(::keel::testing::says(text, expression))

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_TOLD_RANK_H_
