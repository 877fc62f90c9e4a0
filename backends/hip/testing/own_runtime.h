// SPDX-License-Identifier: Apache-2.0
// A runtime for one test: a copy of the library over the emulated chip, with fresh state and with
// the stand-ins of the plugin's kernels in the same folder; optionally RCCL, rocBLAS and
// ROCm SMI.
#ifndef KEEL_BACKENDS_HIP_TESTING_OWN_RUNTIME_H_
#define KEEL_BACKENDS_HIP_TESTING_OWN_RUNTIME_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace keel::testing {

class OwnRuntime {
 public:
  // |settings|: as in KEEL_EMULATED_HIP, which stays set while this object lives, because the
  // library reads the variable on its first call.
  explicit OwnRuntime(const std::string& settings = "",
                      const std::string& file = KEEL_EMULATED_HIP_FILE) {
    static int count = 0;
    folder_ = ::testing::TempDir() + "keel_hip_" + std::to_string(getpid()) + "_" +
              std::to_string(count++);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(file, runtime());
    const std::filesystem::path beside =
        std::filesystem::path(KEEL_EMULATED_HIP_FILE).parent_path();
    for (const char* const kernels : {"libkeel_simt_host_32.so", "libkeel_simt_host_64.so"}) {
      std::filesystem::create_symlink(beside / kernels, std::filesystem::path(folder_) / kernels);
    }
    setenv("KEEL_EMULATED_HIP", settings.c_str(), 1);
  }
  // The libraries stay loaded.
  ~OwnRuntime() {
    unsetenv("KEEL_EMULATED_HIP");
    unsetenv("KEEL_EMULATED_RCCL");
    unsetenv("KEEL_EMULATED_ROCBLAS");
    unsetenv("KEEL_EMULATED_ROCM_SMI");
    std::filesystem::remove_all(folder_);
  }
  OwnRuntime(const OwnRuntime&) = delete;
  OwnRuntime& operator=(const OwnRuntime&) = delete;

  // Copies RCCL to the runtime's folder. |settings|: as in KEEL_EMULATED_RCCL, which also stays
  // set.
  void add_rccl(const std::string& settings = "") const {
    std::filesystem::copy_file(KEEL_EMULATED_RCCL_FILE, folder_ + "/librccl.so.1");
    setenv("KEEL_EMULATED_RCCL", settings.c_str(), 1);
  }
  // Copies the library |file| there as rocBLAS with kernels for |architecture|. |settings|: as in
  // KEEL_EMULATED_ROCBLAS, which also stays set.
  void add_rocblas(const std::string& file, const std::string& settings = "",
                   const std::string& architecture = "gfx90a") const {
    std::filesystem::copy_file(file, rocblas());
    const std::string kernels = folder_ + "/rocblas/library";
    std::filesystem::create_directories(kernels);
    std::ofstream(kernels + "/TensileLibrary_lazy_" + architecture + ".dat") << "kernels";
    setenv("KEEL_EMULATED_ROCBLAS", settings.c_str(), 1);
  }
#ifdef KEEL_EMULATED_ROCM_SMI_FILE
  // The same for ROCm SMI and KEEL_EMULATED_ROCM_SMI.
  void add_rocm_smi(const std::string& settings = "") const {
    std::filesystem::copy_file(KEEL_EMULATED_ROCM_SMI_FILE, folder_ + "/librocm_smi64.so.1");
    setenv("KEEL_EMULATED_ROCM_SMI", settings.c_str(), 1);
  }
#endif
  std::string rocblas() const {
    return folder_ + "/librocblas.so.0";
  }
  const std::string& folder() const {
    return folder_;
  }
  std::string runtime() const {
    return folder_ + "/libamdhip64.so.5";
  }

 private:
  std::string folder_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_HIP_TESTING_OWN_RUNTIME_H_
