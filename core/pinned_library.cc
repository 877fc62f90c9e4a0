// SPDX-License-Identifier: Apache-2.0
#include "core/pinned_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/elf_search.h"
#include "core/plugin_file.h"

namespace keel {

namespace {

// Since Linux 6.3. Without the flag, newer kernels log that a program does not say whether it will
// execute the memory. Mapping the memory as code is allowed either way.
constexpr unsigned int kNoExecSeal = 0x0008U;

int create_memory(const char* name) {
  constexpr unsigned int kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int memory = memfd_create(name, kFlags | kNoExecSeal);
  return memory < 0 && errno == EINVAL ? memfd_create(name, kFlags) : memory;
}

bool write_all(int file, const std::byte* bytes, size_t size) {
  while (size != 0) {
    const ssize_t put = ::write(file, bytes, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

bool copy_all(int from, int to) {
  std::array<std::byte, 1 << 16> buffer;
  for (off_t offset = 0;;) {
    const ssize_t got = pread(from, buffer.data(), buffer.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    if (!write_all(to, buffer.data(), static_cast<size_t>(got))) return false;
    offset += got;
  }
}

}  // namespace

PinnedLibrary::~PinnedLibrary() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (copy_ >= 0) ::close(copy_);
}

Status PinnedLibrary::read(int file, const std::string& path) {
  path_ = path;
  const Status copied = seal_copy(file);
  return copied.ok() ? Status() : copied.with_prefix("plugin " + path + ": ");
}

Status PinnedLibrary::seal_copy(int file) {
  const auto refuse = [](const char* what) {
    char buffer[128];
    return failure(KEEL_UNAVAILABLE, "{}: {}", what, strerror_r(errno, buffer, sizeof(buffer)));
  };
  copy_ = create_memory(path_.c_str() + path_.rfind('/') + 1);
  if (copy_ < 0) return refuse("with a SHA-256 it is loaded from sealed memory, memfd_create");
  if (!copy_all(file, copy_)) return refuse("copy into memory");
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (fcntl(copy_, F_ADD_SEALS, kSeals) != 0) return refuse("seal of the copy in memory");
  struct stat info = {};
  if (fstat(copy_, &info) != 0) return refuse("fstat");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  // Private: Linux before 6.7 refuses shared mappings of sealed memory, even for reading.
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, copy_, 0);
  if (memory == MAP_FAILED) return refuse("mmap");
  bytes_ = {static_cast<const std::byte*>(memory), size};
  return {};
}

Status PinnedLibrary::sha256(std::string* out_hex) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes_.data(), bytes_.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return failure(KEEL_INTERNAL, "plugin {}: SHA-256 could not be computed", path_);
  }
  out_hex->clear();
  for (unsigned int i = 0; i < size; ++i) *out_hex += fmt::format("{:02x}", digest[i]);
  return {};
}

Status PinnedLibrary::open(const std::string& origin, void** out_library, bool* out_uses_origin) {
  *out_uses_origin = false;
  std::string unloaded;
  const ElfSearch search = read_elf_search(bytes_);
  for (const std::string& name : search.needed) {
    const std::string beside =
        find_beside(search, name, origin, trusted_environment("LD_LIBRARY_PATH"));
    // A process has a single library of each name: the first one loaded.
    if (beside.empty() || dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr) continue;
    // Lazily: a function in another library of the same plugin is resolved when called.
    if (dlopen(beside.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) {
      *out_uses_origin = true;
    } else if (const char* why = dlerror(); why != nullptr) {
      unloaded += fmt::format("; {} beside it: {}", name, why);
    }
  }
  // The loader remembers the library by this name, so the descriptor number must never name a
  // second file.
  const std::string name = fmt::format("/proc/self/fd/{}", copy_);
  *out_library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (*out_library == nullptr) {
    const char* why = dlerror();
    return failure(KEEL_UNAVAILABLE, "plugin {}: {}{}", path_,
                   why == nullptr ? "dlopen failed" : why, unloaded);
  }
  copy_ = -1;
  return {};
}

}  // namespace keel
