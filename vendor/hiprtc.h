// SPDX-License-Identifier: Apache-2.0
// The part of HIP's compiler at run time (libhiprtc.so, in ROCm 5.2 libamdhip64.so) that is called
// here. Names, numbers and argument lists are those of hip/hiprtc.h of ROCm 5.2.
#ifndef KEEL_VENDOR_HIPRTC_H_
#define KEEL_VENDOR_HIPRTC_H_

#include <cstddef>

enum hiprtcResult : int {
  HIPRTC_SUCCESS = 0,
  HIPRTC_ERROR_INVALID_INPUT = 3,
  HIPRTC_ERROR_INVALID_PROGRAM = 4,
  HIPRTC_ERROR_COMPILATION = 6,
  HIPRTC_ERROR_INTERNAL_ERROR = 11,
};
using hiprtcProgram = struct _hiprtcProgram*;

extern "C" {

const char* hiprtcGetErrorString(hiprtcResult result);
hiprtcResult hiprtcCreateProgram(hiprtcProgram* prog, const char* src, const char* name,
                                 int numHeaders, const char** headers, const char** includeNames);
// Ends the process if an option names an architecture that the compiler does not know.
hiprtcResult hiprtcCompileProgram(hiprtcProgram prog, int numOptions, const char** options);
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram prog, size_t* logSizeRet);
hiprtcResult hiprtcGetProgramLog(hiprtcProgram prog, char* log);
hiprtcResult hiprtcGetCodeSize(hiprtcProgram prog, size_t* codeSizeRet);
hiprtcResult hiprtcGetCode(hiprtcProgram prog, char* code);
hiprtcResult hiprtcDestroyProgram(hiprtcProgram* prog);

}  // extern "C"

#endif  // KEEL_VENDOR_HIPRTC_H_
