// SPDX-License-Identifier: Apache-2.0
#include "bench/torch_peer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/ipc/poll.h"
#include "base/ipc/socket.h"

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Debian's interpreter, for which python3-torch is installed; PATH may start with another one.
constexpr char kDebians[] = "/usr/bin/python3";
constexpr char kOfPath[] = "python3";
constexpr std::chrono::seconds kAnswerLimit{120};  // limit per answer

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
  FileDescriptor theirs;
  if (const int error = sockets::open_pair(SOCK_STREAM, &socket_, &theirs)) {
    throw std::system_error(error, std::generic_category(), "socketpair");
  }
  ProcessOptions process;
  process.command = {interpreter};
  // Debian's PyTorch is used as installed (-I); another PyTorch may be in any folder of its user.
  if (is_cpu(options)) process.command.push_back("-I");
  process.command.insert(process.command.end(),
                         {options.script, options.device, std::to_string(options.threads),
                          std::to_string(options.sets)});
  process.environment = {"MALLOC_*"};
  process.environment.insert(process.environment.end(), std::begin(kSettings), std::end(kSettings));
  process.descriptors = {{theirs.get(), STDIN_FILENO}, {theirs.get(), STDOUT_FILENO}};
  process.has_own_group = true;  // so that its compiler's processes are killed with it
  if (process_.start(process) != 0) {
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
  if (sockets::send_all(socket_.get(), line.data(), line.size())) return;
  answers_ = false;
  throw std::system_error(errno, std::generic_category(), script_);
}

std::string TorchPeer::receive() {
  const Clock::time_point deadline = Clock::now() + kAnswerLimit;
  while (true) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (poll_until(socket_.get(), POLLIN, deadline) <= 0) {
      answers_ = false;
      throw std::runtime_error(script_ + " does not answer");
    }
    char buffer[4096];
    const ssize_t got = sockets::receive(socket_.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      answers_ = false;
      throw std::runtime_error(script_ + " has ended");
    }
    received_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace keel::bench
