// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::cpu {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

std::string path_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

const char* find_defect(const char* data, uint64_t size) {
  Elf64_Ehdr header;
  if (size < sizeof(header)) return "it is too short for an ELF header";
  std::memcpy(&header, data, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is no ELF file";
  constexpr unsigned char kOrder =
      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kOrder ||
      (kMachine != EM_NONE && header.e_machine != kMachine)) {
    return "it is for another machine";
  }
  if (header.e_type != ET_DYN) return "it is no shared object";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > size ||
      header.e_phnum > (size - header.e_phoff) / sizeof(Elf64_Phdr)) {
    return "its program headers lie outside of it";
  }
  bool has_dynamic = false;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, data + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset ||
        segment.p_memsz < segment.p_filesz) {
      return "a segment ends behind the end of the file: is it cut short?";
    }
    has_dynamic |= segment.p_type == PT_DYNAMIC;
  }
  return has_dynamic ? nullptr : "it has no dynamic section";
}

namespace {

// Returns a sealed memfd with the bytes; -1 with errno when the system refuses.
int make_file(const char* data, uint64_t size) {
  const int fd = memfd_create("keel-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  for (uint64_t written = 0; written < size;) {
    const ssize_t count = write(fd, data + written, size - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      close(fd);
      return -1;
    }
    written += static_cast<uint64_t>(count);
  }
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return fd;
}

}  // namespace

keel_status SharedObject::open(const void* data, uint64_t size,
                               std::unique_ptr<SharedObject>* out_object) {
  const char* const defect = find_defect(static_cast<const char*>(data), size);
  if (defect != nullptr) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: the shared object cannot be loaded: %s", defect);
  }
  const int fd = make_file(static_cast<const char*>(data), size);
  if (fd < 0) return kit::fail(KEEL_OUT_OF_MEMORY, "cpu: memfd: %s", std::strerror(errno));
  void* const handle = dlopen(path_of(fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    const keel_status status =
        kit::fail(KEEL_INVALID_ARGUMENT, "cpu: dlopen: %s", why == nullptr ? "unknown error" : why);
    close(fd);
    return status;
  }
  out_object->reset(new SharedObject(fd, handle));
  return KEEL_OK;
}

SharedObject::~SharedObject() {
  dlclose(handle_);
  // The loader looks up loaded objects by path before opening the file. If the object stays loaded
  // (thread-local destructors, unique symbols), its descriptor must not be reused for another
  // object.
  void* const still_there = dlopen(path_of(fd_).c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (still_there == nullptr) {
    close(fd_);
  } else {
    dlclose(still_there);
  }
}

void* SharedObject::function(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) return nullptr;
  link_map* own = nullptr;
  void* extra = nullptr;
  Dl_info info;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &own) != 0 ||
      dladdr1(address, &info, &extra, RTLD_DL_LINKMAP) == 0 || extra != own) {
    return nullptr;
  }
  if (dladdr1(address, &info, &extra, RTLD_DL_SYMENT) == 0 || extra == nullptr) return nullptr;
  return ELF64_ST_TYPE(static_cast<const Elf64_Sym*>(extra)->st_info) == STT_FUNC ? address
                                                                                  : nullptr;
}

}  // namespace keel::cpu
