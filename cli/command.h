// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: Keel brought up for them, and how they answer.
#ifndef KEEL_CLI_COMMAND_H_
#define KEEL_CLI_COMMAND_H_

#include <keel/keel.hpp>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace keel::cli {

// A mistake in the command line that the parser cannot see, such as a device that is
// not there: exit code 2, as for those it sees. Any other failure is 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keeps the order in which members are written.
using Json = nlohmann::ordered_json;

// Adds --plugin FILE: plugins besides those of the plugin folder.
void add_plugin_option(CLI::App& command, std::vector<std::string>* files);

// Keel is up while this lives, with |plugin_files| loaded.
class Session {
 public:
  explicit Session(const std::vector<std::string>& plugin_files);

 private:
  Runtime runtime_;
};

// Of the backends that there are; UsageError, which lists them, for one that is none.
keel_backend_info find_backend(const std::string& name);

// By name. UsageError where there is none, with |option|, the devices there are, and why that
// backend has none or how it is loaded.
Device find_device(const std::string& option, const std::string& name);
// The JSON |text| that libkeel wrote. std::runtime_error, which says what is wrong, for any other.
Json json_of(const std::string& text);

void print(const std::string& text);
// Indented, and a newline. Text that is not UTF-8 is repaired.
void print_json(const Json& json);

// "a, b, c"; "none" for an empty list.
std::string join(std::span<const std::string> words);

}  // namespace keel::cli

#endif  // KEEL_CLI_COMMAND_H_
