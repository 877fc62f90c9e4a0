// SPDX-License-Identifier: Apache-2.0
#include "tools/host_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace keel::cli {

namespace {

template <size_t kSize>
std::array<unsigned char, kSize> random_bytes() {
  std::array<unsigned char, kSize> bytes = {};
  if (getrandom(bytes.data(), kSize, 0) != static_cast<ssize_t>(kSize)) {
    throw std::runtime_error(fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return bytes;
}

// In single quotes, in which a shell expands nothing.
std::string shell_quoted(std::string_view word) {
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return text + "'";
}

void replace_all(std::string* text, std::string_view from, const std::string& to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at)) {
    text->replace(at, from.size(), to);
    at += to.size();
  }
}

// The caller's KEEL_* and UCX_* variables but those of a rank and of a secret, and then the rank's
// own.
std::vector<std::string> variables_of(const HostLaunch& launch, uint32_t rank, uint32_t local_rank,
                                      uint32_t local_world, const std::string& bootstrap) {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const bool is_keel = text.rfind("KEEL_", 0) == 0 && text.rfind("KEEL_SECRET", 0) != 0;
    if (is_keel || text.rfind("UCX_", 0) == 0) {
      variables.emplace_back(text);
    }
  }
  variables.push_back(fmt::format("KEEL_RANK={}", rank));
  variables.push_back(fmt::format("KEEL_WORLD={}", launch.processes()));
  variables.push_back(fmt::format("KEEL_LOCAL_RANK={}", local_rank));
  variables.push_back(fmt::format("KEEL_LOCAL_WORLD={}", local_world));
  variables.push_back("KEEL_BOOTSTRAP=" + bootstrap);
  variables.push_back("KEEL_SERVER=" + launch.server);
  variables.emplace_back("KEEL_SECRET_FD=0");
  return variables;
}

}  // namespace

uint32_t HostLaunch::processes() const {
  uint32_t sum = 0;
  for (const Host& host : hosts) sum += host.processes;
  return sum;
}

std::vector<HostLaunch::Host> parse_hosts(const std::string& text) {
  std::vector<HostLaunch::Host> hosts;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    HostLaunch::Host host;
    // An IPv6 address has colons too, and stands in brackets.
    const size_t colon =
        entry.find(':', entry.rfind(']') == std::string::npos ? 0 : entry.rfind(']'));
    host.name = entry.substr(0, colon);
    if (colon != std::string::npos) {
      const std::string number = entry.substr(colon + 1);
      const char* const end = number.data() + number.size();
      const auto parsed = std::from_chars(number.data(), end, host.processes);
      if (parsed.ec != std::errc() || parsed.ptr != end) host.processes = 0;
    }
    if (host.name.empty() || host.processes == 0 || host.processes > 4096) {
      throw std::invalid_argument(fmt::format("'{}' is not HOST or HOST:PROCESSES", entry));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw std::invalid_argument("no hosts");
  return hosts;
}

std::string server_address(const std::string& server, const std::vector<HostLaunch::Host>& hosts) {
  const std::string host = server.empty() ? hosts.front().name : server;
  const size_t bracket = host.rfind(']');
  if (host.find(':', bracket == std::string::npos ? 0 : bracket) != std::string::npos) return host;
  // Below the ports that Linux gives to clients, 32768 and above.
  const auto bytes = random_bytes<2>();
  return fmt::format("{}:{}", host, 20000 + (bytes[0] << 8 | bytes[1]) % 12000);
}

std::string random_secret() {
  const auto bytes = random_bytes<16>();
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::vector<std::string> launch_command(const HostLaunch& launch, uint32_t rank,
                                        const std::string& bootstrap,
                                        const std::vector<std::string>& command) {
  uint32_t local_rank = rank;
  size_t index = 0;
  while (local_rank >= launch.hosts[index].processes) local_rank -= launch.hosts[index++].processes;
  const HostLaunch::Host& host = launch.hosts[index];
  std::vector<std::string> started = {"env"};
  for (std::string& variable : variables_of(launch, rank, local_rank, host.processes, bootstrap)) {
    started.push_back(std::move(variable));
  }
  started.insert(started.end(), command.begin(), command.end());
  std::string shell = "cd " + shell_quoted(std::filesystem::current_path().string()) + " && exec";
  for (const std::string& word : started) shell += " " + shell_quoted(word);
  std::vector<std::string> words;
  std::istringstream pattern(launch.launch);
  for (std::string word; pattern >> word;) {
    if (word == "{command}") {
      words.insert(words.end(), started.begin(), started.end());
    } else if (word == "{shell}") {
      words.push_back(shell);
    } else {
      replace_all(&word, "{host}", host.name);
      words.push_back(word);
    }
  }
  return words;
}

}  // namespace keel::cli
