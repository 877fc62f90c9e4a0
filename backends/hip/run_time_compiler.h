// SPDX-License-Identifier: Apache-2.0
// HIP's compiler at run time, hiprtc, for devices of whose architecture the plugin carries no code
// object. A family of kernels takes it 10 to 30 s, and an architecture that it does not know ends
// the process, so the user asks for it by KEEL_HIPRTC=1, and only listed architectures are tried.
#ifndef KEEL_BACKENDS_HIP_RUN_TIME_COMPILER_H_
#define KEEL_BACKENDS_HIP_RUN_TIME_COMPILER_H_

#include <gpu_target.h>

#include <string>

namespace keel::gpu {

// Sets |*out_code| to the code object of |family|, compiled for |architecture| at the first call in
// the process, which waits for that. Returns false with a sentence in |*out_why| if the user has
// not asked, the architecture is not on the list for |runtime_version|, or the compiler fails.
// |own_function|: any function of the runtime, which tells where the compiler is. |*out_code| lives
// as long as the process. Thread-safe.
bool compile_family(const char* family, const std::string& architecture, int runtime_version,
                    const void* own_function, const std::string** out_code, std::string* out_why);

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_HIP_RUN_TIME_COMPILER_H_
