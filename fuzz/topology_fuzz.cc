// SPDX-License-Identifier: Apache-2.0
// Fuzzes descriptions of other machines.
#include <keel/keel.h>

#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  static const keel_status up = keel_init(&options);
  if (up != KEEL_OK) __builtin_trap();
  const std::string text(reinterpret_cast<const char*>(data), size);
  uint64_t room = 1 << 16;
  std::vector<char> answer(room);
  keel_topology_get(text.c_str(), answer.data(), &room);
  return 0;
}
