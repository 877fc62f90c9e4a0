// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/image.h"

#include "kernels/gpu/kernels.h"

// KEEL_SIMT_IMAGE_FOLDER: the folder of the families' fat binaries.
#define KEEL_SIMT_INCLUDE(family, kernels) "keel_simt_image " #family "\n"
asm(R"(
  .macro keel_simt_image family
  .pushsection .rodata
  .balign 64
keel_simt_\family\()_image:
  .incbin ")" KEEL_SIMT_IMAGE_FOLDER R"(/\family\().fatbin"
keel_simt_\family\()_image_end:
  .byte 0
  .popsection
  .hidden keel_simt_\family\()_image
  .hidden keel_simt_\family\()_image_end
  .globl keel_simt_\family\()_image
  .globl keel_simt_\family\()_image_end
  .endm
)" KEEL_SIMT_FAMILIES(KEEL_SIMT_INCLUDE));
#undef KEEL_SIMT_INCLUDE

#define KEEL_SIMT_SYMBOLS(family, kernels)                 \
  extern "C" const std::byte keel_simt_##family##_image[]; \
  extern "C" const std::byte keel_simt_##family##_image_end[];
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

std::span<const Image> cuda_images() {
#define KEEL_SIMT_ENTRY(family, kernels) \
  {#family, names_of_##family, {keel_simt_##family##_image, keel_simt_##family##_image_end}},
  static const Image images[] = {KEEL_SIMT_FAMILIES(KEEL_SIMT_ENTRY)};
#undef KEEL_SIMT_ENTRY
  return images;
}

int cuda_image_version() {
  return KEEL_SIMT_CUDA_VERSION;
}

}  // namespace keel::simt
