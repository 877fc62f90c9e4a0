// SPDX-License-Identifier: Apache-2.0
// The bootstrap address that a unique id encodes.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_ADDRESS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_ADDRESS_H_

#include <keel/keel.h>

#include <string>

#include "collectives/bootstrap/unix_socket.h"
#include "core/status.h"

namespace keel {

// Ids take two forms:
//   keel-1:unix:<32 digits>         random; the creator listens before it returns the id
//   keel-1:name:<uid>-<32 digits>   derived from a name that a launcher gives to all ranks
class BootstrapAddress {
 public:
  static Status random(BootstrapAddress* out_place);
  // Returns equal addresses for all processes of one user with the same |name|, of any characters.
  static BootstrapAddress named(const std::string& name);
  // KEEL_INVALID_ARGUMENT, naming |id|, for a malformed id.
  static Status parse(const keel_unique_id& id, BootstrapAddress* out_place);

  keel_unique_id id() const;
  const std::string& text() const { return text_; }
  // Name of the abstract Unix socket.
  std::string socket_name() const;
  // How connect_to() treats an address without a listener: at a random address the server has
  // ended, at a named address it has not started yet.
  Absence absence() const { return absence_; }

 private:
  std::string text_;
  Absence absence_ = Absence::kFails;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_BOOTSTRAP_ADDRESS_H_
