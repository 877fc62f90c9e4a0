// Its last work is done at the end of the process, and fails.
#include <unistd.h>

#include <cstdlib>

#include "conformance/faulty/plain_plugin.h"

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  std::atexit([] {
    constexpr char kText[] = "what was left could not be saved\n";
    (void)!write(STDERR_FILENO, kText, sizeof(kText) - 1);
    _exit(3);
  });
  return keel::faulty::answer_query("faulty_bad_exit", keel::faulty::plain_tables(), host,
                                    out_plugin);
}
