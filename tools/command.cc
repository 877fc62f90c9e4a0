// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"

namespace keel::cli {

void add_plugin_option(CLI::App& command, std::vector<std::string>* files) {
  command.add_option("--plugin", *files, "Load this plugin too; may be repeated")
      ->type_name("FILE")
      ->check(CLI::ExistingFile)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

Session::Session(const std::vector<std::string>& plugin_files) {
  for (const std::string& file : plugin_files) {
    uint32_t backend = 0;
    const std::string path = std::filesystem::absolute(file).string();
    check(keel_plugin_load(path.c_str(), /*settings=*/nullptr, /*sha256=*/nullptr, &backend));
  }
}

keel_backend_info find_backend(const std::string& name) {
  std::vector<std::string> known;
  for (const keel_backend_info& backend : backends()) {
    if (backend.name == name) return backend;
    known.emplace_back(backend.name);
  }
  throw UsageError("backend '" + name + "' is not loaded; there are: " + join(known) +
                   "; --plugin FILE loads another");
}

namespace {

// Explains how device |name| could become available.
std::string missing_device_text(const std::string& name) {
  const std::string wanted = name.substr(0, name.find(':'));
  for (const keel_backend_info& backend : backends()) {
    if (backend.name != wanted) continue;
    if (backend.status != KEEL_OK) {
      return "; backend '" + wanted + "' does not load: " + backend.reason;
    }
    if (backend.device_count == 0) {
      return "; backend '" + wanted + "' has no device: " + backend.reason;
    }
    return {};
  }
  const char* const chosen = std::getenv("KEEL_BACKENDS");
  return "; backend '" + wanted + "' is not loaded: --plugin FILE loads a vendor's" +
         (chosen == nullptr ? ""
                            : std::string(", and KEEL_BACKENDS=") + chosen +
                                  " leaves out those of Keel's folder that it does not name");
}

}  // namespace

Device find_device(const std::string& option, const std::string& name) {
  try {
    return Device::find(name);
  } catch (const Error& error) {
    if (error.status() != KEEL_NOT_FOUND) throw;
    const std::string text = keel_last_error();
    throw UsageError(option + ": " + text + missing_device_text(name));
  }
}

Json json_of(const std::string& text) {
  Json json;
  std::string error;
  if (!parse_json(text, &json, &error)) {
    throw std::runtime_error("JSON of libkeel cannot be read: " + error);
  }
  return json;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_json(const Json& json) {
  print(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n");
}

std::string join(std::span<const std::string> words) {
  if (words.empty()) return "none";
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace keel::cli
