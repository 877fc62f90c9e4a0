// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/system_failure.h"

namespace keel {

bool may_have_file(uint64_t bytes) {
  struct rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

Status create_shared_file(const char* name, uint64_t bytes, FileDescriptor* out_file) {
  if (!may_have_file(bytes)) {
    return failure(KEEL_OUT_OF_MEMORY,
                   "no {} bytes of shared memory: the limit of a file's size "
                   "(ulimit -f) is below",
                   bytes);
  }
  FileDescriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return system_failure(errno, "memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failure(KEEL_OUT_OF_MEMORY, "no {} bytes of shared memory: {}", bytes,
                   std::strerror(errno));
  }
  *out_file = std::move(file);
  return {};
}

}  // namespace keel
