// SPDX-License-Identifier: Apache-2.0
// Correct, except that it leaves a process behind, in a session of its own. The process waits for a
// file that lists certified levels and rewrites the file so that all levels are certified. The
// environment variable KEEL_TEST_REWRITTEN names the file; the process writes its process id to the
// file KEEL_TEST_LEFT. With KEEL_TEST_FAILS set, create_instance fails once the process is there.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "conformance/faulty/plain_plugin.h"

namespace {

[[noreturn]] void rewrite(const char* path) {
  while (true) {
    std::ifstream file(path);
    std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string what = "\"certified\": false";
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what)) {
      text.replace(at, what.size(), "\"certified\": true");
    }
    if (!text.empty()) std::ofstream(path) << text;
    usleep(1000);
  }
}

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  const char* const path = std::getenv("KEEL_TEST_REWRITTEN");
  const char* const left = std::getenv("KEEL_TEST_LEFT");
  int ends[2];  // closed by the process that is left once it has written its id
  if (path != nullptr && left != nullptr && access(left, F_OK) != 0 && pipe(ends) == 0) {
    if (fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      std::ofstream(left) << getpid();
      for (int descriptor = 0; descriptor < 256; ++descriptor) close(descriptor);
      rewrite(path);
    }
    close(ends[1]);
    char nothing = 0;
    (void)!read(ends[0], &nothing, 1);
    close(ends[0]);
  }
  if (std::getenv("KEEL_TEST_FAILS") != nullptr) return KEEL_INTERNAL;
  return keel::faulty::plain_tables().create_instance(settings, out_instance);
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.create_instance = create_instance;
  return keel::faulty::answer_query("faulty_leaves_process", tables, host, out_plugin);
}
