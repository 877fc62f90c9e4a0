// SPDX-License-Identifier: Apache-2.0
#include "conformance/emulated_libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <keel/keel.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace keel::conformance {

namespace fs = std::filesystem;

namespace {

std::string variable_of(std::string plugin) {
  std::transform(plugin.begin(), plugin.end(), plugin.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return "KEEL_" + plugin + "_LIBRARY_FOLDER";
}

}  // namespace

bool uses_emulated_libraries(const std::string& plugin) {
  const char* const value = std::getenv(variable_of(plugin).c_str());
  if (value == nullptr) return false;
  std::error_code failure;
  const fs::path folder = fs::canonical(value, failure);
  // Accepts the folder of this build or of another.
  return !failure && folder.filename() == plugin && folder.parent_path().filename() == "emulated" &&
         folder.parent_path().parent_path().filename() == "keel";
}

fs::path keel_folder() {
  Dl_info info = {};
  if (dladdr(dlsym(RTLD_DEFAULT, "keel_version"), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  std::error_code failure;
  const fs::path library = fs::canonical(info.dli_fname, failure);
  return failure ? fs::path() : library.parent_path() / "keel";
}

bool use_emulated_libraries(std::string* error) {
  const fs::path beside = keel_folder();
  if (beside.empty()) {
    *error = "libkeel's folder is not known";
    return false;
  }
  std::error_code failure;
  const fs::path folder = beside / "emulated";
  bool found = false;
  for (fs::directory_iterator each(folder, failure); each != fs::directory_iterator();
       each.increment(failure)) {
    setenv(variable_of(each->path().filename()).c_str(), each->path().c_str(), 1);
    found = true;
  }
  if (!found) *error = "there are no emulated libraries in " + folder.string();
  return found;
}

std::string marshalling_of(std::string_view kernel) {
  // docs/emulator.md lists the replacement of each library.
  if (!kernel.starts_with("cublaslt.") && !kernel.starts_with("rocblas.") &&
      !kernel.starts_with("aclnn.")) {
    return {};
  }
  return fmt::format("{}{} is the emulated library's, which computes as the reference does",
                     kMarshalling, kernel);
}

}  // namespace keel::conformance
