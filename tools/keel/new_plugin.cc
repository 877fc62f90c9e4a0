// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/new_plugin.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "tools/command.h"

namespace keel::cli {
namespace {

namespace fs = std::filesystem;

// Placeholder for the plugin's name in the templates.
constexpr std::string_view kTemplateName = "skeleton";
// Same limit as in core: device names, "NAME:0", must fit their fields.
constexpr size_t kLongestName = 31;
constexpr std::array<std::string_view, 11> kOwnNames = {"ascend", "cpu",      "cuda",       "gpu",
                                                        "hip",    "kunlun",   "level_zero", "sim",
                                                        "simt",   "skeleton", "vulkan"};

struct TemplateFile {
  const char* source;       // in share/keel/skeleton
  const char* destination;  // in the project; kTemplateName is replaced
};
constexpr TemplateFile kFiles[] = {
    {"skeleton.cc", "skeleton.cc"},      {"project/CMakeLists.txt", "CMakeLists.txt"},
    {"project/README.md", "README.md"},  {"project/conform.yml", ".github/workflows/conform.yml"},
    {"project/gitignore", ".gitignore"}, {"project/waivers.json", "waivers.json"},
};

struct NewPluginOptions {
  std::string name;
  std::string folder;
};

void check_name(const std::string& name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto may_follow = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || name.size() > kLongestName || !is_letter(name.front()) ||
      !std::all_of(name.begin(), name.end(), may_follow)) {
    throw UsageError(fmt::format(
        "NAME: '{}' is no plugin's name: [a-z][a-z0-9_]*, at most {} characters, such as mychip",
        printable(name), kLongestName));
  }
  if (std::find(kOwnNames.begin(), kOwnNames.end(), name) != kOwnNames.end()) {
    throw UsageError(fmt::format(
        "NAME: '{}' is a name of Keel's own backends; two plugins of one name cannot be told apart",
        name));
  }
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns the folder that contains the templates and that CMAKE_PREFIX_PATH uses to find Keel: the
// parent of the program's folder, in an installation, a bundle and a build folder.
fs::path own_prefix() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path();
}

std::string read_template(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.is_open() || stream.bad()) {
    throw std::runtime_error(
        fmt::format("{}: the template cannot be read: it comes with the files for developers "
                    "(component dev, Debian package libkeel-dev)",
                    file.string()));
  }
  return text;
}

void write_file(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot be written", file.string()));
}

void make_project(const NewPluginOptions& options) {
  check_name(options.name);
  const fs::path folder = options.folder.empty() ? options.name : options.folder;
  if (fs::exists(fs::symlink_status(folder))) {
    throw UsageError(fmt::format("{}: '{}' exists already: name another with --folder",
                                 options.folder.empty() ? "NAME" : "--folder",
                                 printable(folder.string())));
  }
  const fs::path prefix = own_prefix();
  const auto filled_in = [&](const std::string& text) {
    return replace_all(text, kTemplateName, options.name);
  };
  // All templates are read before the first file is written, so that no folder is left without
  // them.
  std::array<std::string, std::size(kFiles)> texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    texts[i] = filled_in(read_template(prefix / "share/keel/skeleton" / kFiles[i].source));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    write_file(folder / filled_in(kFiles[i].destination), texts[i]);
  }
  print(
      fmt::format("{0} has the project of the plugin {1}. Next:\n"
                  "  cd {0}\n"
                  "  cmake -S . -B build -DCMAKE_PREFIX_PATH={2}\n"
                  "  cmake --build build\n"
                  "  {2}/bin/keel conform run --plugin build/libkeel_{1}.so --level null\n"
                  "README.md there lists what to fill in, and in which order.\n",
                  printable(folder.string()), options.name, prefix.string()));
}

}  // namespace

void add_new_plugin_command(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("new-plugin", "Write the project of a plugin of your own");
  const auto options = std::make_shared<NewPluginOptions>();
  command
      .add_option(
          "name", options->name,
          fmt::format("of the plugin: [a-z][a-z0-9_]*, at most {} characters", kLongestName))
      ->type_name("NAME")
      ->required();
  command.add_option("--folder", options->folder, "where the project goes; a new one (./NAME)")
      ->type_name("DIR");
  command.footer(
      "Examples:\n"
      "  keel new-plugin mychip\n"
      "  keel new-plugin mychip --folder ~/src/keel-mychip");
  command.callback([options] { make_project(*options); });
}

}  // namespace keel::cli
