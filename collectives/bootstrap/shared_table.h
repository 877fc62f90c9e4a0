// SPDX-License-Identifier: Apache-2.0
// One copy of a job's table for all ranks of this process.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_SHARED_TABLE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_SHARED_TABLE_H_

#include <memory>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/messages.h"
#include "core/status.h"

namespace keel {

// As parse_host_table(). Ranks of this process with the same |message| share one table: a process
// with 16 of 1024 ranks would otherwise read 16384 entries. Thread-safe.
Status share_host_table(Bytes message, std::shared_ptr<const HostTable>* out_table,
                        ProcessToken* out_server);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_SHARED_TABLE_H_
