// SPDX-License-Identifier: Apache-2.0
// For shims of several libraries of one vendor: finds the runtime shim, owner of the chips and
// streams, for the further libraries; ends the process where the vendor's libraries define nothing.
#ifndef KEEL_EMULATOR_SHIMS_BESIDE_H_
#define KEEL_EMULATOR_SHIMS_BESIDE_H_

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
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

// Ends the process with a sentence: the real library leaves the situation undefined.
[[noreturn]] inline void undefined(const char* call, const char* why) {
  std::fprintf(stderr, "keel: emulated library: %s: %s; the real one does not define this\n", call,
               why);
  std::abort();
}

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_SHIMS_BESIDE_H_
