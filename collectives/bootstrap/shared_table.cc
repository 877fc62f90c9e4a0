// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/shared_table.h"

#include <mutex>
#include <utility>

#include "collectives/bootstrap/host_messages.h"

namespace keel {

namespace {

struct Shared {
  Bytes message;
  HostTable table;
  ProcessToken server;
};

}  // namespace

Status share_host_table(Bytes message, std::shared_ptr<const HostTable>* out_table,
                        ProcessToken* out_server) {
  static std::mutex mutex;
  static auto& known = *new std::weak_ptr<const Shared>;  // threads may outlive statics
  // Held while a rank reads the message, so that the others wait for the result.
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Shared> shared = known.lock();
  if (!shared || shared->message != message) {
    auto read = std::make_shared<Shared>();
    KEEL_RETURN_IF_ERROR(parse_host_table(message, &read->table, &read->server));
    read->message = std::move(message);
    known = read;
    shared = std::move(read);
  }
  *out_server = shared->server;
  *out_table = std::shared_ptr<const HostTable>(shared, &shared->table);
  return {};
}

}  // namespace keel
