// SPDX-License-Identifier: Apache-2.0
// A driver for one test: a copy of the library over the emulated chip, with fresh state and with
// the stand-ins of the plugin's kernels in the same folder; optionally NCCL and cuBLASLt.
#ifndef KEEL_BACKENDS_CUDA_TESTING_OWN_DRIVER_H_
#define KEEL_BACKENDS_CUDA_TESTING_OWN_DRIVER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace keel::testing {

class OwnDriver {
 public:
  // |settings|: as in KEEL_EMULATED_CUDA, which stays set while this object lives, because the
  // library reads the variable on its first call.
  explicit OwnDriver(const std::string& settings = "") {
    static int count = 0;
    folder_ = ::testing::TempDir() + "keel_cuda_" + std::to_string(getpid()) + "_" +
              std::to_string(count++);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(KEEL_EMULATED_CUDA_FILE, folder_ + "/libcuda.so.1");
    const std::filesystem::path kernels = kernels_beside(KEEL_EMULATED_CUDA_FILE);
    if (std::filesystem::exists(kernels)) {
      std::filesystem::create_symlink(kernels, kernels_beside(folder_ + "/libcuda.so.1"));
    }
    setenv("KEEL_EMULATED_CUDA", settings.c_str(), 1);
  }
  // The library stays loaded.
  ~OwnDriver() {
    unsetenv("KEEL_EMULATED_CUDA");
    unsetenv("KEEL_EMULATED_NCCL");
    unsetenv("KEEL_EMULATED_CUBLASLT");
    std::filesystem::remove_all(folder_);
  }
  OwnDriver(const OwnDriver&) = delete;
  OwnDriver& operator=(const OwnDriver&) = delete;

  // Copies the library |file| to the driver's folder as NCCL. |settings|: as in KEEL_EMULATED_NCCL,
  // which also stays set.
  void add_nccl(const std::string& file, const std::string& settings = "") const {
    std::filesystem::copy_file(file, folder_ + "/libnccl.so.2");
    setenv("KEEL_EMULATED_NCCL", settings.c_str(), 1);
  }

  // The same for cuBLASLt and KEEL_EMULATED_CUBLASLT.
  void add_cublaslt(const std::string& file, const std::string& settings = "") const {
    std::filesystem::copy_file(file, cublaslt());
    setenv("KEEL_EMULATED_CUBLASLT", settings.c_str(), 1);
  }
  std::string cublaslt() const { return folder_ + "/libcublasLt.so.13"; }

  const std::string& folder() const { return folder_; }
  // Does not exist in a build without nvcc.
  std::filesystem::path kernels() const { return kernels_beside(folder_ + "/libcuda.so.1"); }

 private:
  static std::filesystem::path kernels_beside(const std::filesystem::path& driver) {
    return driver.parent_path() / "libkeel_simt_host.so";
  }

  std::string folder_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_CUDA_TESTING_OWN_DRIVER_H_
