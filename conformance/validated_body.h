// SPDX-License-Identifier: Apache-2.0
// The body of one case, in the process that has the plugin: a worker's, or the program's own.
#ifndef KEEL_CONFORMANCE_VALIDATED_BODY_H_
#define KEEL_CONFORMANCE_VALIDATED_BODY_H_

#include <string>

#include "conformance/catalogue.h"
#include "conformance/protocol.h"

namespace keel::conformance {

// How a body ended, with the reason.
struct Ending {
  BodyEnd how = BodyEnd::kReturned;
  std::string text;
};

// Runs the body of |each|. Under KEEL_VALIDATE=1 a case fails if the validation layer reports a
// problem, and log messages go to standard error. The layer sees no call of a case on the plugin's
// own tables.
Ending run_validated(const Case& each, const Context& context);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_VALIDATED_BODY_H_
