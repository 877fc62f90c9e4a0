// SPDX-License-Identifier: Apache-2.0
// Shared by the subcommands: initialization of Keel, lookups and output.
#ifndef KEEL_TOOLS_COMMAND_H_
#define KEEL_TOOLS_COMMAND_H_

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

// A mistake in the command line that the parser cannot see, such as an absent device. The command
// exits with 2, as for the parser's own errors; any other failure exits with 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keeps members in the order in which they are written.
using Json = nlohmann::ordered_json;

// Adds --plugin FILE, which loads plugins besides those of the plugin folder.
void add_plugin_option(CLI::App& command, std::vector<std::string>* files);

// Initializes Keel with |plugin_files| loaded; the destructor shuts Keel down.
class Session {
 public:
  explicit Session(const std::vector<std::string>& plugin_files);

 private:
  Runtime runtime_;
};

// Returns the backend |name|. Throws UsageError, listing the backends, for an unknown name.
keel_backend_info find_backend(const std::string& name);

// Finds a device by name. Throws UsageError for an unknown name, with |option|, the devices
// present, and why the named backend has no device or how to load the backend.
Device find_device(const std::string& option, const std::string& name);
// Parses JSON |text| written by libkeel. Throws std::runtime_error, with the parser's message, for
// invalid JSON.
Json json_of(const std::string& text);

void print(const std::string& text);
// Prints |json| indented, with a final newline. Invalid UTF-8 is replaced.
void print_json(const Json& json);

// "a, b, c"; "none" for an empty list.
std::string join(std::span<const std::string> words);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_COMMAND_H_
