// SPDX-License-Identifier: Apache-2.0
// Hang: a wait whose deadline passes never returns. With KEEL_TEST_PRINTS set it prints meanwhile,
// on several threads, so that standard output is never empty.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "conformance/faulty/plain_plugin.h"

namespace {

// Fills standard output, a pipe, with as much as a user may make it hold, faster than a reader
// takes it: pages are not copied.
[[noreturn]] void print() {
  constexpr size_t kBytes = 1 << 20;
  (void)fcntl(STDOUT_FILENO, F_SETPIPE_SZ, kBytes);
  static std::array<char, kBytes> text;
  text.fill('x');
  const iovec pages = {text.data(), text.size()};
  while (true) (void)!vmsplice(STDOUT_FILENO, &pages, 1, /*flags=*/0);
}

keel_status wait(keel_plugin_event* event, int64_t timeout_ns) {
  const keel_status status = keel::faulty::plain_tables().stream.event_wait(event, timeout_ns);
  if (status == KEEL_TIMED_OUT && std::getenv("KEEL_TEST_PRINTS") != nullptr) {
    for (int i = 0; i < 8; ++i) std::thread(print).detach();
  }
  while (status == KEEL_TIMED_OUT) pause();
  return status;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.event_wait = wait;
  return keel::faulty::answer_query("faulty_hang", tables, host, out_plugin);
}
