// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/system_failure.h"

#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace keel {

Status system_failure(int error, std::string_view what) {
  if (error == EMFILE) {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    return failure(KEEL_UNAVAILABLE,
                   "{}: this process has as many files open as it may, {} (RLIMIT_NOFILE)", what,
                   limit.rlim_cur);
  }
  std::array<char, 128> buffer{};
  const char* text = strerror_r(error, buffer.data(), buffer.size());
  switch (error) {
    case ENFILE:
    case ETOOMANYREFS:  // descriptors in flight in sockets
      return failure(KEEL_UNAVAILABLE, "{}: {}", what, text);
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
      return failure(KEEL_OUT_OF_MEMORY, "{}: {}", what, text);
    case EACCES:
    case EPERM:
      return failure(KEEL_PERMISSION_DENIED, "{}: {}", what, text);
    default:
      return failure(KEEL_INTERNAL, "{}: {}", what, text);
  }
}

}  // namespace keel
