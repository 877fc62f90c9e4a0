// SPDX-License-Identifier: Apache-2.0
// The handles of communicators.
#ifndef KEEL_COLLECTIVES_COMMUNICATOR_HANDLE_H_
#define KEEL_COLLECTIVES_COMMUNICATOR_HANDLE_H_

#include "collectives/communicator.h"
#include "core/api.h"

namespace keel {

using CommunicatorTable = HandleTable<Communicator, HandleKind::kComm>;

// Communicators in this table end when the runtime shuts down, before the devices are released.
CommunicatorTable& communicator_handles();

// Reads the options of a call that makes a communicator; NULL: the defaults.
Status read_communicator_options(const keel_comm_options* given, CommunicatorOptions* out_options);
// Creates a handle. On failure aborts the communicator: a rank without a handle can never call, and
// its peers would wait.
Status add_communicator(const Ref<Communicator>& communicator, keel_comm* out_comm);

// Finds the communicator of a handle that has none: it may have formed meanwhile. Else the failure
// of a call with the handle.
Status find_formed_communicator(keel_comm handle, Ref<Communicator>* out_communicator);

inline Status find_communicator(keel_comm handle, Ref<Communicator>* out_communicator) {
  *out_communicator = communicator_handles().find(handle.id);
  return *out_communicator ? Status() : find_formed_communicator(handle, out_communicator);
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_COMMUNICATOR_HANDLE_H_
