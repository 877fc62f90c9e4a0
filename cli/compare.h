// SPDX-License-Identifier: Apache-2.0
// `keel compare`: the first tensor in which two runs part.
#ifndef KEEL_CLI_COMPARE_H_
#define KEEL_CLI_COMPARE_H_

namespace CLI {
class App;
}

namespace keel::cli {

// |exit_code| becomes 1 where they part. What cannot be compared is a UsageError.
void add_compare_command(CLI::App& app, int* exit_code);

}  // namespace keel::cli

#endif  // KEEL_CLI_COMPARE_H_
