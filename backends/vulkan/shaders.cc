// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/shaders.h"

#include <iterator>

// Embeds module NAME from keel_vulkan_begin_NAME to keel_vulkan_end_NAME. KEEL_VULKAN_MODULES is
// the folder of the modules.
#define KEEL_VULKAN_NAME(shader, module, shape, local_size) "," #module
#define KEEL_VULKAN_NAME_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_NAME, __VA_ARGS__)
asm(R"(
  .pushsection .rodata
  .irp name )" KEEL_VULKAN_SHADERS(KEEL_VULKAN_NAME, KEEL_VULKAN_NAME_TWO) R"(
  .balign 4
keel_vulkan_begin_\name:
  .incbin ")" KEEL_VULKAN_MODULES R"(/\name\().spv"
keel_vulkan_end_\name:
  .globl keel_vulkan_begin_\name
  .globl keel_vulkan_end_\name
  .hidden keel_vulkan_begin_\name
  .hidden keel_vulkan_end_\name
  .endr
  .popsection
)");

#define KEEL_VULKAN_DECLARE(shader, module, shape, local_size) \
  extern "C" const uint32_t keel_vulkan_begin_##module[];      \
  extern "C" const uint32_t keel_vulkan_end_##module[];
#define KEEL_VULKAN_DECLARE_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_DECLARE, __VA_ARGS__)
KEEL_VULKAN_SHADERS(KEEL_VULKAN_DECLARE, KEEL_VULKAN_DECLARE_TWO)

namespace keel::vulkan {

namespace {

struct Module {
  const uint32_t* begin;
  const uint32_t* end;
  WorkgroupShape shape;
  uint32_t local_size;
};

#define KEEL_VULKAN_ROW(shader, module, shape, local_size) \
  {keel_vulkan_begin_##module, keel_vulkan_end_##module, WorkgroupShape::shape, local_size},
#define KEEL_VULKAN_ROW_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_ROW, __VA_ARGS__)
constexpr Module kModules[] = {KEEL_VULKAN_SHADERS(KEEL_VULKAN_ROW, KEEL_VULKAN_ROW_TWO)};

static_assert(std::size(kModules) == kShaderCount);

}  // namespace

ShaderCode shader_code(Shader shader) {
  const Module& module = kModules[static_cast<uint32_t>(shader)];
  return {module.begin, static_cast<size_t>(module.end - module.begin), module.shape,
          module.local_size};
}

}  // namespace keel::vulkan
