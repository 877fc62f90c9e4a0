// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/instance.h"

#include <cstdio>
#include <cstdlib>
#include <keel/plugin_kit.hpp>
#include <optional>
#include <string_view>

#include "backends/kunlun/bkcl.h"
#include "backends/kunlun/result.h"

namespace keel::kunlun {
namespace {

// Names of the models whose numbers the vendor publishes.
const char* model_name(uint64_t model) {
  constexpr const char* kNames[] = {"K200",    "K100",     "R200", "R300",
                                    "R200-8F", "R200-8FS", "R100", "R200 debug board",
                                    "R420",    "RG800"};
  return model < std::size(kNames) ? kNames[model] : nullptr;
}

const char* architecture_of(uint64_t model) {
  if (model < xre::kModelKl2) return "xpu1";
  return model < xre::kModelKl3 ? "xpu2" : "xpu3";
}

}  // namespace

keel_status Instance::create(const keel_instance_settings* settings,
                             std::unique_ptr<Instance>* out_instance) {
  // The user must not control the environment of a process with more rights than the user.
  const auto environment = [](const char* name) {
    const char* const value = secure_getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  std::optional<std::string> folder = environment("KEEL_KUNLUN_LIBRARY_FOLDER");
  std::optional<std::string> bkcl = environment("KEEL_BKCL_LIBRARY_FOLDER");
  const uint32_t count = settings == nullptr ? 0 : settings->count;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view key = settings->keys[i];
    if (key == "library_folder") {
      folder = settings->values[i];
    } else if (key == "bkcl_folder") {
      bkcl = settings->values[i];
    } else {
      return kit::fail(KEEL_INVALID_ARGUMENT, "kunlun: setting '%s' is not known",
                       settings->keys[i]);
    }
  }
  std::string runtimes = folder.value_or("");
  std::string collectives = bkcl.value_or(runtimes);
  out_instance->reset(new Instance(runtimes, std::move(collectives)));
  return KEEL_OK;
}

keel_status Instance::describe(uint32_t ordinal, keel_device_info* out_info) const {
  if (ordinal >= runtime_.devices().size()) {
    return kit::fail(KEEL_NOT_FOUND, "kunlun: there is no device %u", ordinal);
  }
  const xre::Functions& xpu = runtime_.functions();
  const int number = runtime_.devices()[ordinal];
  // Returns false if this XRE does not know the attribute.
  const auto read = [&](xre::Attribute attribute, uint64_t* out_value) {
    return xpu.device_get_attr(out_value, attribute, number) == xre::kSuccess;
  };
  uint64_t model = 0;
  const int asked = error_of(xpu.device_get_attr(&model, xre::kModel, number));
  if (asked != xre::kSuccess) {
    return kit::fail(status_of(asked), "kunlun: device %u: %s", ordinal,
                     text_of("xpu_device_get_attr", asked).c_str());
  }
  const std::string name = model_name(model) != nullptr ? std::string("Kunlun ") + model_name(model)
                                                        : "Kunlun, model " + std::to_string(model);
  kit::copy_text(out_info->name, name.c_str());
  kit::copy_text(out_info->architecture, architecture_of(model));
  kit::copy_text(out_info->driver, runtime_.description().c_str());
  if (uint64_t pci = 0; read(xre::kPciAddress, &pci)) {
    std::snprintf(out_info->pci_address, sizeof(out_info->pci_address), "%04x:%02x:%02x.%x",
                  static_cast<unsigned>(pci >> 16 & 0xffff), static_cast<unsigned>(pci >> 8 & 0xff),
                  static_cast<unsigned>(pci >> 3 & 0x1f), static_cast<unsigned>(pci & 0x7));
  }
  out_info->type = KEEL_DEVICE_NPU;
  out_info->numa_node = -1;
  out_info->capabilities = KEEL_CAPABILITY_NOTIFY;
  if (xpu.host_alloc != nullptr && xpu.host_free != nullptr) {
    out_info->capabilities |= KEEL_CAPABILITY_PINNED;
  }
  if (xpu.host_register != nullptr && xpu.host_unregister != nullptr) {
    out_info->capabilities |= KEEL_CAPABILITY_HOST_REGISTER;
  }
  if (xpu.memcpy_async != nullptr) out_info->capabilities |= KEEL_CAPABILITY_ASYNC;
  if (Bkcl::of(bkcl_folder_).is_usable()) out_info->capabilities |= KEEL_CAPABILITY_CCL;
  (void)read(xre::kMainMemoryBytes, &out_info->memory_bytes);
  out_info->alignment = 64;  // which Device::alloc checks
  if (uint64_t clusters = 0; read(xre::kClusters, &clusters)) {
    out_info->compute_units = static_cast<uint32_t>(clusters);
  }
  return KEEL_OK;
}

}  // namespace keel::kunlun
