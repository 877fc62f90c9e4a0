// SPDX-License-Identifier: Apache-2.0
// The libraries that a shared library needs, and the folders in which it has the loader look.
#ifndef KEEL_CORE_ELF_SEARCH_H_
#define KEEL_CORE_ELF_SEARCH_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace keel {

// The entries of an ELF file's dynamic section that decide which libraries are loaded with it.
struct ElfSearch {
  std::vector<std::string> needed;   // DT_NEEDED, in the file's order
  std::vector<std::string> folders;  // DT_RUNPATH, else DT_RPATH; $ORIGIN is not replaced yet
  bool is_runpath = false;           // LD_LIBRARY_PATH goes before a DT_RUNPATH
};

// Empty where |file| is no ELF file of this machine's word size, or breaks off early.
ElfSearch read_elf_search(std::span<const std::byte> file);

// The path of |name| in the first folder that has it, if that folder was given by $ORIGIN, which
// |origin| stands for; else empty: the loader finds |name| without knowing the origin, or nowhere.
// |library_path|: as LD_LIBRARY_PATH, or NULL. Subfolders of the kind glibc-hwcaps are not
// searched.
std::string find_beside(const ElfSearch& search, const std::string& name, const std::string& origin,
                        const char* library_path);

}  // namespace keel

#endif  // KEEL_CORE_ELF_SEARCH_H_
