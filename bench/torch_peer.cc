// SPDX-License-Identifier: Apache-2.0
#include "bench/torch_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

extern char** environ;

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Debian's interpreter, for which python3-torch is installed; PATH may start with another one.
constexpr char kDebians[] = "/usr/bin/python3";
constexpr char kOfPath[] = "python3";
constexpr std::chrono::seconds kTestTimeout{120};  // limit per answer

bool is_cpu(const TorchOptions& options) {
  return options.device == "cpu";
}

std::vector<std::string> interpreters(const TorchOptions& options) {
  if (is_cpu(options)) return {kDebians};
  const char* const told = std::getenv("KEEL_BENCH_PYTHON");
  if (told != nullptr && *told != '\0') return {told};
  return {kOfPath, kDebians};
}

// Extra environment of the process. By default glibc returns large freed blocks to the system;
// PyTorch, which allocates each result anew, would then be timed for its page faults.
constexpr const char* kSettings[] = {"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=68719476736"};

}  // namespace

std::string TorchOptions::default_script() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path() / "peers" / "torch_ops.py").string();
}

std::unique_ptr<TorchPeer> TorchPeer::start(const TorchOptions& options, std::string* out_why) {
  if (!std::filesystem::exists(options.script)) {
    *out_why = options.script + " is missing";
    return nullptr;
  }
  out_why->clear();
  for (const std::string& interpreter : interpreters(options)) {
    std::unique_ptr<TorchPeer> peer(new TorchPeer(options.script));
    std::string why;
    if (peer->begin(interpreter, options, &why)) return peer;
    *out_why += fmt::format("{}{}: {}", out_why->empty() ? "" : "; ", interpreter, why);
  }
  return nullptr;
}

bool TorchPeer::begin(const std::string& interpreter, const TorchOptions& options,
                      std::string* out_why) {
  // A socket instead of pipes: a write to an ended process can be kept from killing this process.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  socket_ = ends[0];

  std::vector<std::string> words = {interpreter};
  // Debian's PyTorch is used as installed (-I); another PyTorch may be in any folder of its user.
  if (is_cpu(options)) words.push_back("-I");
  words.insert(words.end(), {options.script, options.device, std::to_string(options.threads),
                             std::to_string(options.sets)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("MALLOC_")) environment.push_back(*variable);
  }
  for (const char* setting : kSettings) environment.push_back(const_cast<char*>(setting));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // Own process group, so that its compiler's processes are killed with it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int failure = posix_spawnp(&process_, interpreter.c_str(), &actions, &attributes,
                                   arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    process_ = -1;
    *out_why = "is not here";
    return false;
  }
  std::string greeting;
  try {
    greeting = receive();
  } catch (const std::exception& error) {
    greeting = error.what();
  }
  constexpr std::string_view kReady = "ready ";
  if (!greeting.starts_with(kReady)) {
    *out_why = greeting;
    return false;
  }
  name_ = "PyTorch " + greeting.substr(kReady.size());
  return true;
}

TorchPeer::~TorchPeer() {
  if (socket_ >= 0) close(socket_);
  if (process_ < 0) return;
  // Killed without waiting for its current computation.
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

bool TorchPeer::can(const std::string& mode, std::string* out_why) {
  send(fmt::format("can {}\n", mode));
  const std::string answer = receive();
  if (answer == "yes") return true;
  *out_why = answer;
  return false;
}

double TorchPeer::run(const std::string& operator_name, const std::string& shape,
                      const std::string& dtype, const std::string& mode, uint64_t repetitions) {
  send(fmt::format("run {} {} {} {} {}\n", operator_name, shape, dtype, mode, repetitions));
  const std::string answer = receive();
  char* end = nullptr;
  const double seconds = std::strtod(answer.c_str(), &end);
  if (end == answer.c_str() || *end != '\0') {
    throw std::runtime_error(fmt::format("{}, {}: {}", name_, operator_name, answer));
  }
  return seconds;
}

void TorchPeer::send(const std::string& line) {
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      answers_ = false;
      throw std::system_error(errno, std::generic_category(), script_);
    }
    left.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string TorchPeer::receive() {
  const Clock::time_point deadline = Clock::now() + kTestTimeout;
  while (true) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waited = {socket_, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      answers_ = false;
      throw std::runtime_error(script_ + " does not answer");
    }
    char buffer[4096];
    const ssize_t got = read(socket_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      answers_ = false;
      throw std::runtime_error(script_ + " has ended");
    }
    received_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace keel::bench
