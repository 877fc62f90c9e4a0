// SPDX-License-Identifier: Apache-2.0
// `keel flight`: prints the records of a job's flight recorders.
#ifndef KEEL_CLI_FLIGHT_H_
#define KEEL_CLI_FLIGHT_H_

#include <string>

#include "cli/command.h"

namespace CLI {
class App;
}

namespace keel::cli {

void add_flight_command(CLI::App& app);

// Returns one sentence per line: which ranks of |communicator| (an element of "communicators" in
// the result of keel_flight_read) are behind, which have ended and which have no file. Empty
// without findings.
std::string flight_findings(const Json& communicator);

}  // namespace keel::cli

#endif  // KEEL_CLI_FLIGHT_H_
