// SPDX-License-Identifier: Apache-2.0
// Initializes Keel from its environment alone and prints the result. A test runs the program with
// and without the privileges of a set-user-ID file.
#include <keel/keel.h>
#include <sys/auxv.h>

#include <cstdio>
#include <vector>

int main() {
  std::printf("secure %lu\n", getauxval(AT_SECURE));
  const keel_status up = keel_init(nullptr);
  std::printf("init %s %s\n", keel_status_name(up), up == KEEL_OK ? "" : keel_last_error());
  if (up != KEEL_OK) return 0;
  uint32_t backends = 0;
  keel_backend_count(&backends);
  for (uint32_t i = 0; i < backends; ++i) {
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    if (keel_backend_get(i, &info) != KEEL_OK) return 1;
    std::printf("backend %s %s %u devices\n", info.name, info.path, info.device_count);
  }
  std::vector<char> text(1 << 20);
  uint64_t size = text.size();
  std::printf("topology %s\n", keel_status_name(keel_topology_get(nullptr, text.data(), &size)));
  keel_shutdown();
  return 0;
}
