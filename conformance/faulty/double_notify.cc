// SPDX-License-Identifier: Apache-2.0
// Double completion: calls the callback of an event twice.
#include "conformance/faulty/plain_plugin.h"

namespace {

struct Twice {
  keel_notify_fn function;
  void* user;
};

void call_twice(void* user, keel_status status) {
  const Twice* const twice = static_cast<Twice*>(user);
  twice->function(twice->user, status);
  twice->function(twice->user, status);
  delete twice;
}

keel_status notify(keel_plugin_event* event, keel_notify_fn function, void* user) {
  return keel::faulty::plain_tables().stream.event_notify(event, call_twice,
                                                          new Twice{function, user});
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_notify = notify;
  return keel::faulty::answer_query("faulty_double_notify", tables, host, out_plugin);
}
