// SPDX-License-Identifier: Apache-2.0
// An SDK for one test: copies of the libraries over the emulated chip, with fresh state.
#ifndef KEEL_BACKENDS_KUNLUN_TESTING_OWN_SDK_H_
#define KEEL_BACKENDS_KUNLUN_TESTING_OWN_SDK_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace keel::testing {

class OwnSdk {
 public:
  // |settings|: as in KEEL_EMULATED_XRE, which stays set while this object lives, because the
  // library reads the variable on its first call.
  explicit OwnSdk(const std::string& settings = "", bool with_bkcl = true) {
    static int count = 0;
    folder_ = ::testing::TempDir() + "keel_kunlun_" + std::to_string(getpid()) + "_" +
              std::to_string(count++);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(KEEL_EMULATED_XRE_FILE, runtime());
    if (with_bkcl) std::filesystem::copy_file(KEEL_EMULATED_BKCL_FILE, bkcl());
    setenv("KEEL_EMULATED_XRE", settings.c_str(), 1);
  }
  // The libraries stay loaded.
  ~OwnSdk() {
    unsetenv("KEEL_EMULATED_XRE");
    unsetenv("KEEL_EMULATED_BKCL");
    std::filesystem::remove_all(folder_);
  }
  OwnSdk(const OwnSdk&) = delete;
  OwnSdk& operator=(const OwnSdk&) = delete;

  const std::string& folder() const { return folder_; }
  std::string runtime() const { return folder_ + "/libxpurt.so"; }
  std::string bkcl() const { return folder_ + "/libbkcl.so"; }

 private:
  std::string folder_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_KUNLUN_TESTING_OWN_SDK_H_
