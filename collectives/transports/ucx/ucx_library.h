// SPDX-License-Identifier: Apache-2.0
// UCX, opened at run time.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_LIBRARY_H_
#define KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_LIBRARY_H_

#include <string>

#include "collectives/transports/ucx/ucx_api.h"
#include "core/status.h"

namespace keel {

// The functions of libucp.so.0, once a process. Thread-safe.
class UcxLibrary {
 public:
  UcxLibrary() = default;
  // A stand-in, for tests.
  explicit UcxLibrary(const ucx::Functions& functions) : functions_(functions) {}

  // KEEL_UNAVAILABLE, saying what is missing: no library, a function that the library does not
  // have, or a version below 1.13. The library stays open for good.
  static Status get(const UcxLibrary** out_library);
  // The same with other names of the libraries, for tests. Opens anew in each call.
  static Status open(const char* ucp, const char* ucs, UcxLibrary* out_library);

  const ucx::Functions& functions() const { return functions_; }
  const ucx::Functions* operator->() const { return &functions_; }
  // "1.13": hosts of a job need the same one, since UCX promises no common format on the wire.
  const std::string& version() const { return version_; }
  std::string text(ucx::Result result) const { return functions_.status_string(result); }

 private:
  ucx::Functions functions_ = {};
  std::string version_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_UCX_UCX_LIBRARY_H_
