// SPDX-License-Identifier: Apache-2.0
// `keel flight`: what the flight recorders of a job wrote down.
#ifndef KEEL_CLI_FLIGHT_H_
#define KEEL_CLI_FLIGHT_H_

#include <string>

#include "cli/command.h"

namespace CLI {
class App;
}

namespace keel::cli {

void add_flight_command(CLI::App& app);

// A sentence a line: which ranks of |communicator| (an element of "communicators" in what
// keel_flight_read returns) are behind the others, which have ended and which have no file.
// Empty where there is nothing to say.
std::string flight_findings(const Json& communicator);

}  // namespace keel::cli

#endif  // KEEL_CLI_FLIGHT_H_
