// SPDX-License-Identifier: Apache-2.0
// The command lines with which `keel run --hosts` starts processes on other hosts.
#ifndef KEEL_TOOLS_HOST_LAUNCH_H_
#define KEEL_TOOLS_HOST_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace keel::cli {

struct HostLaunch {
  struct Host {
    std::string name;
    uint32_t processes = 1;
  };
  std::vector<Host> hosts;
  std::string launch;  // see expand()
  std::string server;  // "HOST:PORT" of KEEL_SERVER
  std::string secret;  // read by each process from its standard input

  uint32_t processes() const;
};

// The default of HostLaunch::launch.
inline constexpr const char* kSshLaunch = "ssh -o BatchMode=yes {host} {shell}";

// Reads "a:2,b:2"; a host without a number runs one process. Throws std::invalid_argument.
std::vector<HostLaunch::Host> parse_hosts(const std::string& text);

// Returns |server| with a random port if it names none: "[::1]" and "10.0.0.1" become "[::1]:4711"
// and "10.0.0.1:4711". The first host's name stands in for an empty |server|.
std::string server_address(const std::string& server, const std::vector<HostLaunch::Host>& hosts);

// Returns 32 random hexadecimal digits.
std::string random_secret();

// Returns the words that start process |rank| of the job: those of |launch.launch|, separated by
// spaces, in which {host} is the name of the rank's host, {command} is replaced by `env` with the
// variables of the rank, and |command|, and {shell} by one word with the same for a shell, which
// enters this process's working directory first. |bootstrap|: value of KEEL_BOOTSTRAP.
std::vector<std::string> launch_command(const HostLaunch& launch, uint32_t rank,
                                        const std::string& bootstrap,
                                        const std::vector<std::string>& command);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_HOST_LAUNCH_H_
