// SPDX-License-Identifier: Apache-2.0
// The bundles of AMD code objects. A bundle, of clang's format, has an entry for the host, which is
// the family's name here, and one for each architecture. Without hipcc the bundles have the host's
// entry alone: the runtime of a GPU finds no code in them and refuses them, and the emulated chip,
// which goes by the bytes, has its own code for the family.
#include "kernels/gpu/image.h"
#include "kernels/gpu/kernels.h"

#ifdef KEEL_SIMT_HIP_FOLDER
#define KEEL_SIMT_HIP_BYTES ".incbin \"" KEEL_SIMT_HIP_FOLDER "/\\family\\().hipfb\""
#else
#define KEEL_SIMT_HIP_BYTES                                                    \
  ".ascii \"__CLANG_OFFLOAD_BUNDLE__\"\n"                                      \
  "  .quad 1\n"                                                                \
  "  .quad 87\n"                                                               \
  "  .quad keel_simt_\\family\\()_hip_end - keel_simt_\\family\\()_hip - 87\n" \
  "  .quad 31\n"                                                               \
  "  .ascii \"host-x86_64-unknown-linux-keel-\"\n"                             \
  "  .ascii \"\\family\""
#endif

#define KEEL_SIMT_INCLUDE(family, kernels) "keel_simt_hip_image " #family "\n"
asm("\n"
    "  .macro keel_simt_hip_image family\n"
    "  .pushsection .rodata\n"
    "  .balign 4096\n"
    "keel_simt_\\family\\()_hip:\n"
    "  " KEEL_SIMT_HIP_BYTES
    "\n"
    "keel_simt_\\family\\()_hip_end:\n"
    "  .byte 0\n"
    "  .popsection\n"
    "  .hidden keel_simt_\\family\\()_hip\n"
    "  .hidden keel_simt_\\family\\()_hip_end\n"
    "  .globl keel_simt_\\family\\()_hip\n"
    "  .globl keel_simt_\\family\\()_hip_end\n"
    "  .endm\n" KEEL_SIMT_FAMILIES(KEEL_SIMT_INCLUDE));
#undef KEEL_SIMT_INCLUDE

#define KEEL_SIMT_SYMBOLS(family, kernels)               \
  extern "C" const std::byte keel_simt_##family##_hip[]; \
  extern "C" const std::byte keel_simt_##family##_hip_end[];
KEEL_SIMT_FAMILIES(KEEL_SIMT_SYMBOLS)
#undef KEEL_SIMT_SYMBOLS

namespace keel::simt {
namespace {

#define KEEL_SIMT_NAME(name) "keel_" #name,
#define KEEL_SIMT_NAMES(family, kernels) \
  constexpr const char* names_of_##family[] = {kernels(KEEL_SIMT_NAME)};
KEEL_SIMT_FAMILIES(KEEL_SIMT_NAMES)
#undef KEEL_SIMT_NAMES
#undef KEEL_SIMT_NAME

}  // namespace

std::span<const Image> hip_images() {
#define KEEL_SIMT_ENTRY(family, kernels) \
  {#family, names_of_##family, {keel_simt_##family##_hip, keel_simt_##family##_hip_end}},
  static const Image images[] = {KEEL_SIMT_FAMILIES(KEEL_SIMT_ENTRY)};
#undef KEEL_SIMT_ENTRY
  return images;
}

const char* hip_architectures() {
#ifdef KEEL_SIMT_HIP_FOLDER
  return KEEL_SIMT_HIP_ARCHITECTURES;
#else
  return "";
#endif
}

}  // namespace keel::simt
