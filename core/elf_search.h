// SPDX-License-Identifier: Apache-2.0
// Reads the libraries that a shared library needs, and the folders that the library tells the
// loader to search.
#ifndef KEEL_CORE_ELF_SEARCH_H_
#define KEEL_CORE_ELF_SEARCH_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace keel {

// Entries of an ELF file's dynamic section that decide which libraries the loader loads with the
// file.
struct ElfSearch {
  std::vector<std::string> needed;   // DT_NEEDED, in file order
  std::vector<std::string> folders;  // DT_RUNPATH, else DT_RPATH; $ORIGIN is not replaced yet
  bool is_runpath = false;           // the loader searches LD_LIBRARY_PATH before DT_RUNPATH
};

// Empty if |file| is no ELF file of this machine's word size. A truncated file yields at most the
// entries before the cut.
ElfSearch read_elf_search(std::span<const std::byte> file);

// Returns the path of |name| in the first folder that contains |name|, if that folder was given by
// $ORIGIN, replaced here by |origin|. Otherwise returns an empty string: the loader finds |name|
// without the origin, or nowhere. |library_path|: the value of LD_LIBRARY_PATH, or NULL. Subfolders
// such as glibc-hwcaps are not searched.
std::string find_beside(const ElfSearch& search, const std::string& name, const std::string& origin,
                        const char* library_path);

}  // namespace keel

#endif  // KEEL_CORE_ELF_SEARCH_H_
