// SPDX-License-Identifier: Apache-2.0
#include "core/backend.h"

#include <keel/fork_settings.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/device.h"
#include "core/validation/validation.h"

namespace keel {

Backend::~Backend() {
  devices_.clear();
  if (instance_ != nullptr) plugin_->destroy_instance(instance_);
}

Status plugin_status(keel_status code, const std::string& who, const char* call) {
  if (code == KEEL_OK) return {};
  if (code == KEEL_NOT_READY) return Status::not_ready();
  const std::string text = take_plugin_text();
  if (text.empty()) return failure(code, "{}: {} returned {}", who, call, status_name(code));
  return failure(code, "{}: {}: {}", who, call, text);
}

Status Backend::load(const keel_plugin* plugin, const keel_instance_settings* settings,
                     uint32_t fork_memory) {
  plugin_ = validation::enabled() ? validation::checked_plugin(plugin, name_) : plugin;
  // The struct has this version's size: a caller's longer one has members unknown to the plugin.
  keel_instance_settings given = {
      {sizeof(given), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 0, 0, nullptr, nullptr};
  keel_fork_settings fork_settings = {
      {sizeof(fork_settings), KEEL_STRUCT_FORK_SETTINGS, nullptr}, fork_memory, 0};
  if (settings != nullptr) {
    given.count = settings->count;
    given.keys = settings->keys;
    given.values = settings->values;
    fork_settings.header.next = settings->header.next;
  }
  given.header.next = &fork_settings;
  take_plugin_text();  // discard text left by an earlier call
  keel_plugin_instance* instance = nullptr;
  status_ = plugin_status(plugin_->create_instance(&given, &instance), name_, "create_instance");
  if (!status_.ok()) return status_;
  instance_ = instance;
  status_ = find_devices();
  if (!status_.ok()) devices_.clear();
  return status_;
}

namespace {

// Terminates the texts, in case a plugin has left one unterminated.
void cut_texts(keel_device_info& info) {
  for (const std::span<char> text :
       {std::span<char>(info.name), std::span<char>(info.architecture),
        std::span<char>(info.pci_address), std::span<char>(info.driver)}) {
    text.back() = '\0';
  }
}

}  // namespace

Status Backend::find_devices() {
  uint32_t count = 0;
  KEEL_RETURN_IF_ERROR(
      plugin_status(plugin_->device->count(instance_, &count), name_, "device.count"));
  if (count == 0) {
    reason_ = take_plugin_text();
    if (reason_.empty()) reason_ = "the plugin reports no device and does not say why";
    return {};
  }
  if (plugin_->memory == nullptr || plugin_->stream == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "{}: {} devices, but no memory or stream table", name_,
                   count);
  }
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    // A plugin of a later version that ignores the size would write past the struct.
    struct {
      keel_device_info info;
      std::array<uint8_t, 256> behind;
    } given = {KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO), {}};
    const keel_device_info& info = given.info;
    const keel_header header = info.header;
    KEEL_RETURN_IF_ERROR(plugin_status(plugin_->device->info(instance_, ordinal, &given.info),
                                       name_, "device.info"));
    if (info.header.size != header.size || info.header.type != header.type ||
        std::any_of(given.behind.begin(), given.behind.end(), [](uint8_t b) { return b != 0; })) {
      return failure(KEEL_INVALID_ARGUMENT,
                     "{}: device.info of {} does not keep to the size of the keel_device_info it "
                     "was given ({} bytes)",
                     name_, ordinal, header.size);
    }
    if (info.alignment < 64 || (info.alignment & (info.alignment - 1)) != 0) {
      return failure(KEEL_INVALID_ARGUMENT,
                     "{}: device.info of {} gives alignment {}, not a power of two >= 64", name_,
                     ordinal, info.alignment);
    }
    cut_texts(given.info);
    devices_.push_back(make_ref<Device>(*this, ordinal, info));
  }
  return {};
}

}  // namespace keel
