// SPDX-License-Identifier: Apache-2.0
// The unique id of a rendezvous between hosts.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_ID_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_ID_H_

#include <keel/keel.h>

#include <cstdint>
#include <string>

#include "collectives/bootstrap/identity.h"
#include "core/status.h"

namespace keel {

// keel-1:tcp:HOST:PORT:<32 digits>: a numeric address, an IPv6 one in brackets, and the job.
struct TcpId {
  std::string host;
  uint16_t port = 0;
  ProcessToken job;

  // KEEL_INVALID_ARGUMENT, naming |id|, for a malformed id.
  static Status parse(const keel_unique_id& id, TcpId* out_id);
  keel_unique_id id() const;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_ID_H_
