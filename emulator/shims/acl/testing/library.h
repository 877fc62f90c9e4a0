// SPDX-License-Identifier: Apache-2.0
// Ascend's emulated libraries as users load them: at run time, by name, in one folder.
#ifndef KEEL_EMULATOR_SHIMS_ACL_TESTING_LIBRARY_H_
#define KEEL_EMULATOR_SHIMS_ACL_TESTING_LIBRARY_H_

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "vendor/ascend/acl.h"
#include "vendor/ascend/aclnn.h"
#include "vendor/ascend/hccl.h"

namespace keel::emulator::testing {

inline void* library(const char* file) {
  setenv("KEEL_EMULATED_ASCEND", "devices=3 memory_mib=64", 1);
  return dlopen((std::string(KEEL_EMULATED_ASCEND_FOLDER) + "/" + file).c_str(),
                RTLD_NOW | RTLD_LOCAL);
}

}  // namespace keel::emulator::testing

#define ACL(name)                    \
  reinterpret_cast<decltype(&name)>( \
      dlsym(keel::emulator::testing::library("libascendcl.so"), #name))
#define HCCL(name) \
  reinterpret_cast<decltype(&name)>(dlsym(keel::emulator::testing::library("libhccl.so"), #name))
#define NNOPBASE(name)               \
  reinterpret_cast<decltype(&name)>( \
      dlsym(keel::emulator::testing::library("libnnopbase.so"), #name))
#define OPAPI(name) \
  reinterpret_cast<decltype(&name)>(dlsym(keel::emulator::testing::library("libopapi.so"), #name))

#endif  // KEEL_EMULATOR_SHIMS_ACL_TESTING_LIBRARY_H_
