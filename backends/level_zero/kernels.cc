// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/kernels.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/level_zero/device.h"
#include "backends/level_zero/stream.h"
#include "kernels/gpu/arguments.h"
#include "kernels/gpu/level_zero/spirv_image.h"

namespace keel::gpu {

std::string take_log(const ze::Functions& ze, ze::BuildLog log) {
  if (log == nullptr) return {};
  size_t size = 0;
  std::string text;
  if (ze.ModuleBuildLogGetString(log, &size, nullptr) == ze::kSuccess && size > 1) {
    text.resize(size);
    if (ze.ModuleBuildLogGetString(log, &size, text.data()) != ze::kSuccess) text.clear();
    text.resize(std::min<size_t>(text.find('\0'), 300));
  }
  (void)ze.ModuleBuildLogDestroy(log);
  return text.empty() ? text : ": " + text;
}

bool Kernels::are_for(const ze::Functions& functions, ze::Device device) {
  if (simt::spirv_images().empty()) return false;
  ze::ComputeProperties compute;
  if (functions.DeviceGetComputeProperties(device, &compute) != ze::kSuccess) return false;
  const uint32_t* const sizes = compute.subgroup_sizes;
  const uint32_t* const end = sizes + std::min<uint32_t>(compute.subgroup_sizes_count, 8);
  return compute.max_group_x >= simt::kThreads && compute.max_group_size >= simt::kThreads &&
         compute.max_local_bytes >= simt::kSpirvLocalBytes &&
         std::find(sizes, end, simt::kWarp) != end;
}

std::unique_ptr<Kernels> Kernels::load(Device& device, const ze::DeviceProperties& properties) {
  if (!are_for(device.functions(), device.handle())) return nullptr;
  std::unique_ptr<Kernels> kernels(new Kernels);
  // A subslice has the local memory and the barriers of a multiprocessor.
  const uint32_t subslices = properties.slices * properties.subslices_per_slice;
  if (subslices != 0) kernels->multiprocessors_ = subslices;
  kernels->has_doubles_ = find_doubles(device);
  std::string what;
  const ze::Result result = kernels->load_images(device, &what);
  if (result == ze::kSuccess) return kernels;
  kernels->unload(device);
  kit::log(KEEL_LOG_WARNING, "level_zero: the operators' kernels cannot be loaded: %s",
           text_of(what.c_str(), result).c_str());
  return nullptr;
}

bool Kernels::find_doubles(Device& device) {
  ze::ModuleProperties properties;
  return device.functions().DeviceGetModuleProperties(device.handle(), &properties) ==
             ze::kSuccess &&
         (properties.flags & ze::kModuleFloat64) != 0;
}

bool Kernels::can_compute(const keel_op_call& call) const {
  if (has_doubles_) return true;
  if (call.op == KEEL_OP_SCATTER) {
    return call.outputs[0]->dtype != KEEL_FLOAT64 ||
           kit::attributes<keel_op_scatter_attributes>(call).add == 0;
  }
  if (call.op == KEEL_OP_CAST) {
    return call.inputs[0]->dtype != KEEL_FLOAT64 && call.outputs[0]->dtype != KEEL_FLOAT64;
  }
  return (call.op != KEEL_OP_ELEMENTWISE && call.op != KEEL_OP_REDUCE) ||
         kit::compute_dtype(call) != KEEL_FLOAT64;
}

ze::Result Kernels::load_images(Device& device, std::string* out_what) {
  const ze::Functions& ze = device.functions();
  ze::Module* module = modules_.data();
  Kernel* kernel = kernels_.data();
  for (const simt::SpirvImage& image : simt::spirv_images()) {
    if (image.has_doubles && !has_doubles_) {
      kernel += image.kernels.size();
      ++module;
      continue;
    }
    ze::ModuleDesc desc;
    desc.bytes = image.bytes.size();
    desc.data = reinterpret_cast<const uint8_t*>(image.bytes.data());
    ze::BuildLog log = nullptr;
    ze::Result result = ze.ModuleCreate(device.context(), device.handle(), &desc, module, &log);
    const std::string said = take_log(ze, log);
    if (result != ze::kSuccess) {
      *module = nullptr;
      *out_what = std::string("zeModuleCreate of ") + image.family + said;
      return result;
    }
    for (const char* const name : image.kernels) {
      ze::KernelDesc kernel_desc;
      kernel_desc.name = name;
      *out_what = std::string("zeKernelCreate of ") + name;
      result = ze.KernelCreate(*module, &kernel_desc, &kernel->native);
      if (result != ze::kSuccess) {
        kernel->native = nullptr;
        return result;
      }
      result = ze.KernelSetGroupSize(kernel->native, simt::kThreads, 1, 1);
      // The argument has addresses, which the driver does not see.
      if (result == ze::kSuccess) {
        result = ze.KernelSetIndirectAccess(
            kernel->native, ze::kIndirectHost | ze::kIndirectDevice | ze::kIndirectShared);
      }
      if (result != ze::kSuccess) return result;
      ++kernel;
    }
    ++module;
  }
  return ze::kSuccess;
}

void Kernels::unload(Device& device) {
  for (Kernel& kernel : kernels_) {
    if (kernel.native == nullptr) continue;
    (void)device.release("zeKernelDestroy",
                         [&](const ze::Functions& ze) { return ze.KernelDestroy(kernel.native); });
    kernel.native = nullptr;
  }
  for (ze::Module& module : modules_) {
    if (module == nullptr) continue;
    (void)device.release("zeModuleDestroy",
                         [&](const ze::Functions& ze) { return ze.ModuleDestroy(module); });
    module = nullptr;
  }
}

keel_status Kernels::launch(Stream& stream, simt::KernelId id, uint32_t blocks_x, uint32_t blocks_y,
                            const void* arguments, size_t size) const {
  const Kernel& kernel = kernels_[static_cast<size_t>(id)];
  const std::lock_guard lock(kernel.mutex);
  const keel_status status =
      stream.device().call("zeKernelSetArgumentValue", [&](const ze::Functions& ze) {
        return ze.KernelSetArgumentValue(kernel.native, 0, size, arguments);
      });
  return status == KEEL_OK ? stream.launch(kernel.native, {blocks_x, blocks_y, 1}) : status;
}

}  // namespace keel::gpu
