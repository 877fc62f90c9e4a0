// SPDX-License-Identifier: Apache-2.0
// Maps XRE's errors to ABI statuses.
#ifndef KEEL_BACKENDS_KUNLUN_RESULT_H_
#define KEEL_BACKENDS_KUNLUN_RESULT_H_

#include <keel/abi.h>

#include <string>

namespace keel::kunlun {

// Returns the error without its sign: the manual says that functions return negative numbers, the
// headers do not say.
constexpr int error_of(int result) {
  return result < 0 ? -result : result;
}

keel_status status_of(int error);
// Whether |error| means that the device no longer works in this process.
bool is_fatal(int error);
// "xpu_malloc: XPUERR_NOMEM (705)"
std::string text_of(const char* call, int error);

}  // namespace keel::kunlun

#endif  // KEEL_BACKENDS_KUNLUN_RESULT_H_
