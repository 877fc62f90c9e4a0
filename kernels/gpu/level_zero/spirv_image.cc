// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/level_zero/spirv_image.h"

#include "kernels/gpu/kernels.h"

// KEEL_SPIRV_FOLDER: the folder of the families' SPIR-V.
#define KEEL_SPIRV_INCLUDE(family, kernels) "keel_spirv_image " #family "\n"
asm(R"(
  .macro keel_spirv_image family
  .pushsection .rodata
  .balign 64
keel_spirv_\family\()_image:
  .incbin ")" KEEL_SPIRV_FOLDER R"(/\family\().spv"
keel_spirv_\family\()_image_end:
  .byte 0
  .popsection
  .hidden keel_spirv_\family\()_image
  .hidden keel_spirv_\family\()_image_end
  .globl keel_spirv_\family\()_image
  .globl keel_spirv_\family\()_image_end
  .endm
)" KEEL_SIMT_FAMILIES(KEEL_SPIRV_INCLUDE));
#undef KEEL_SPIRV_INCLUDE

#define KEEL_SPIRV_SYMBOLS(family, kernels)                 \
  extern "C" const std::byte keel_spirv_##family##_image[]; \
  extern "C" const std::byte keel_spirv_##family##_image_end[];
KEEL_SIMT_FAMILIES(KEEL_SPIRV_SYMBOLS)
#undef KEEL_SPIRV_SYMBOLS

namespace keel::simt {
namespace {

#define KEEL_SPIRV_NAME(name) "keel_" #name,
#define KEEL_SPIRV_NAMES(family, kernels) \
  constexpr const char* names_of_##family[] = {kernels(KEEL_SPIRV_NAME)};
KEEL_SIMT_FAMILIES(KEEL_SPIRV_NAMES)
#undef KEEL_SPIRV_NAMES
#undef KEEL_SPIRV_NAME

}  // namespace

std::span<const SpirvImage> spirv_images() {
#define KEEL_SPIRV_BYTES(family) \
  { keel_spirv_##family##_image, keel_spirv_##family##_image_end }
#define KEEL_SPIRV_ENTRY(family, kernels) \
  {#family, names_of_##family, KEEL_SPIRV_BYTES(family), /*has_doubles=*/false},
  static const SpirvImage images[] = {KEEL_SIMT_COMMON_FAMILIES(KEEL_SPIRV_ENTRY){
      "doubles", names_of_doubles, KEEL_SPIRV_BYTES(doubles), /*has_doubles=*/true}};
#undef KEEL_SPIRV_ENTRY
#undef KEEL_SPIRV_BYTES
  return images;
}

}  // namespace keel::simt
