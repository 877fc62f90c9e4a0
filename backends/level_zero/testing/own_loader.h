// SPDX-License-Identifier: Apache-2.0
// A loader for one test: a copy of the library over the emulated chip, with fresh state.
#ifndef KEEL_BACKENDS_LEVEL_ZERO_TESTING_OWN_LOADER_H_
#define KEEL_BACKENDS_LEVEL_ZERO_TESTING_OWN_LOADER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace keel::testing {

class OwnLoader {
 public:
  // |settings|: as in KEEL_EMULATED_LEVEL_ZERO, which stays set while this object lives, because
  // the library reads the variable on its first call. |with_kernels|: beside the operators'
  // kernels.
  explicit OwnLoader(const std::string& settings = "", bool with_kernels = true) {
    static int count = 0;
    folder_ = ::testing::TempDir() + "keel_level_zero_" + std::to_string(getpid()) + "_" +
              std::to_string(count++);
    std::filesystem::create_directories(folder_);
    const std::filesystem::path built = KEEL_EMULATED_LEVEL_ZERO_FILE;
    std::filesystem::copy_file(built, file());
    const auto kernels = built.parent_path() / "libkeel_simt_host.so";
    if (with_kernels && std::filesystem::exists(kernels)) {
      std::filesystem::create_symlink(kernels, folder_ + "/libkeel_simt_host.so");
    }
    setenv("KEEL_EMULATED_LEVEL_ZERO", settings.c_str(), 1);
  }
  // The library stays loaded.
  ~OwnLoader() {
    unsetenv("KEEL_EMULATED_LEVEL_ZERO");
    std::filesystem::remove_all(folder_);
  }
  OwnLoader(const OwnLoader&) = delete;
  OwnLoader& operator=(const OwnLoader&) = delete;

  const std::string& folder() const { return folder_; }
  std::string file() const { return folder_ + "/libze_loader.so.1"; }

  // Takes symbol |name| from the library, as in a release without it: renames it in the table of
  // names.
  void remove_symbol(const std::string& name) const {
    std::ifstream in(file(), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    in.close();
    const std::string entry = std::string(1, '\0') + name + std::string(1, '\0');
    size_t found = 0;
    for (size_t at = 0; (at = bytes.find(entry, at)) != std::string::npos; at += name.size()) {
      bytes[at + name.size()] = '~';
      ++found;
    }
    EXPECT_NE(found, 0u) << name << " is not in " << file();
    std::ofstream(file(), std::ios::binary) << bytes;
  }

 private:
  std::string folder_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_LEVEL_ZERO_TESTING_OWN_LOADER_H_
