// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SIMT_POCL_POCL_H_
#define KEEL_EMULATOR_SIMT_POCL_POCL_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "emulator/simt/kernel.h"
#include "vendor/opencl.h"

namespace keel::emulator::simt {

// Runs the SPIR-V of kernels/gpu on the host's processor by PoCL, an implementation of OpenCL,
// whose memory is the host's: the addresses in a kernel's arguments are replaced by those of the
// bytes. Debian's PoCL takes no SPIR-V, so the build translates each module to LLVM's form.
// Thread-safe.
class Pocl {
 public:
  static Pocl& get();

  // Runs all blocks of a launch. A kernel that exchanges values within a subgroup, which PoCL
  // cannot, runs from its source. kFailed, with a sentence, without a PoCL.
  Outcome run(const Kernel& kernel, const Grid& grid, const void* arguments, AddressSpace& memory,
              std::string* out_error);

 private:
  struct Family {
    opencl::Object program = nullptr;
    std::set<std::string> shuffling;
    std::string failure;
    std::map<std::string, opencl::Object> kernels;
  };

  Pocl();
  std::string open();
  Family& family(const std::string& name);
  void build(const std::string& name, Family* out_family) const;

  opencl::Functions cl_ = {};
  opencl::Object device_ = nullptr;
  opencl::Object context_ = nullptr;
  opencl::Object queue_ = nullptr;
  std::string failure_;
  std::mutex mutex_;  // of all below, and of launches
  std::map<std::string, Family> families_;
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_POCL_POCL_H_
