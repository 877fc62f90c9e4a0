// SPDX-License-Identifier: Apache-2.0
// Finds the runtime shim of a vendor, owner of the chips and streams, for the shims of the vendor's
// further libraries.
#ifndef KEEL_EMULATOR_SHIMS_BESIDE_H_
#define KEEL_EMULATOR_SHIMS_BESIDE_H_

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace keel::emulator {

// Opens |file| in the folder of the library that contains |own_function|, and nowhere else: a
// foreign library of that name may be loaded from another folder. Returns NULL if there is none.
inline void* open_beside(void* own_function, const char* file) {
  Dl_info info = {};
  if (dladdr(own_function, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  std::string path = info.dli_fname;
  path.erase(path.find_last_of('/') + 1);
  return dlopen((path + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Sets |*out_function| to symbol |name| of |library|, which may be NULL; false if there is none.
template <typename Function>
bool find_beside(void* library, const char* name, Function** out_function) {
  void* const address = library == nullptr ? nullptr : dlsym(library, name);
  std::memcpy(out_function, &address, sizeof(address));
  return address != nullptr;
}

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_SHIMS_BESIDE_H_
