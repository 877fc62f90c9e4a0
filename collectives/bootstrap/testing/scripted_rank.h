// SPDX-License-Identifier: Apache-2.0
// Scripted ranks: each worker is one rank and executes commands, one per line.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SCRIPTED_RANK_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SCRIPTED_RANK_H_

#include <gtest/gtest.h>
#include <keel/keel.h>

#include <functional>
#include <string>

namespace keel::testing {

// For workers: makes this process rank |rank| of |world| of a job that meets at |rendezvous|, as if
// `keel run` had started it. The process ends with the test in any case.
void enter_job(const std::string& rank, const std::string& world, const std::string& rendezvous);

// For workers: answers each line of standard input, until its end, with one line: the status that
// |obey| returned and, after a failure, Keel's error text.
void answer_commands(const std::function<keel_status(const std::string& command)>& obey);

// Whether the worker's answer |said| contains |text|.
::testing::AssertionResult says(const std::string& text, const std::string& said);
#define EXPECT_SAYS(text, expression) EXPECT_TRUE(::keel::testing::says(text, expression))

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SCRIPTED_RANK_H_
