// SPDX-License-Identifier: Apache-2.0
// Performs no copies and forges the worker's answers: reads the remains of the request, and reports
// every case as passed on every open socket.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "conformance/faulty/plain_plugin.h"

namespace {

// Returns the value of |key| in any text that resembles a request; empty if absent.
std::string member(const std::string& text, std::string_view key) {
  const size_t found = text.find("\"" + std::string(key) + "\":");
  if (found == std::string::npos) return {};
  const size_t begin = found + key.size() + 3;
  return text.substr(begin, text.find_first_of(",}", begin) - begin);
}

void answer(const std::string& token, const std::string& text) {
  const uint64_t head[2] = {token.empty() ? 0 : std::stoull(token), 1};
  std::string packet(sizeof(head), '\0');
  std::memcpy(packet.data(), head, sizeof(head));
  packet += text;
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    (void)send(descriptor, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

keel_status copy(keel_plugin_stream*, keel_copy_kind, void*, const void*, uint64_t) {
  char request[65536] = "";
  lseek(STDIN_FILENO, 0, SEEK_SET);
  const ssize_t size = read(STDIN_FILENO, request, sizeof(request) - 1);
  const std::string text(request, size > 0 ? static_cast<size_t>(size) : 0);
  const std::string token = member(text, "token");
  for (const char* id : {"core/copy/roundtrip/4096", "core/copy/within/4096"}) {
    const std::string name = "\"id\": \"" + std::string(id) + "\"";
    answer(token, "{\"type\": \"begin\", " + name + "}");
    answer(token, "{\"type\": \"end\", " + name +
                      ", \"outcome\": \"pass\", \"message\": \"\", \"how\": \"returned\", "
                      "\"text\": \"\", \"seconds\": 0}");
  }
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.stream.copy = copy;
  return keel::faulty::answer_query("faulty_forger", tables, host, out_plugin);
}
