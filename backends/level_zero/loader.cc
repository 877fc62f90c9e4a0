// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "backends/level_zero/result.h"

namespace keel::gpu {
namespace {

// "zeInit" for the table Global, else "ze<table><name>".
std::string symbol(const std::string& table, const char* name) {
  return "ze" + (table == "Global" ? std::string() : table) + name;
}

}  // namespace

const Loader& Loader::of(const std::string& folder) {
  // Never destroyed, like the libraries.
  static std::mutex& mutex = *new std::mutex;
  static auto& loaders = *new std::map<std::string, std::unique_ptr<Loader>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Loader>& loader = loaders[folder];
  if (loader == nullptr) loader.reset(new Loader(folder));
  return *loader;
}

Loader::Loader(const std::string& folder) {
  if (!open(folder) || !find_gpus()) gpus_.clear();
  if (gpus_.empty()) return;
  find_peers();
}

bool Loader::open(const std::string& folder) {
  if (!library_.open(folder, {"libze_loader.so.1"})) {
    reason_ = "no Level Zero loader: " + library_.error();
    return false;
  }
  std::string missing;
#define KEEL_ZE_FIND(table, name, slot, arguments)                              \
  if (!library_.find(symbol(#table, #name).c_str(), &functions_.table##name)) { \
    missing += (missing.empty() ? "" : ", ") + symbol(#table, #name);           \
  }
  KEEL_ZE_FUNCTIONS(KEEL_ZE_FIND)
#undef KEEL_ZE_FIND
#define KEEL_ZE_FIND(table, name, slot, arguments) \
  library_.find(symbol(#table, #name).c_str(), &functions_.table##name);
  KEEL_ZE_OPTIONAL_FUNCTIONS(KEEL_ZE_FIND)
#undef KEEL_ZE_FIND
#define KEEL_ZES_FIND(table, name, slot, arguments) \
  library_.find("zes" #table #name, &functions_.Sysman##table##name);
  KEEL_ZES_FUNCTIONS(KEEL_ZES_FIND)
#undef KEEL_ZES_FIND
  std::string path = "libze_loader.so.1";
  Dl_info info;
  if (functions_.GlobalInit != nullptr &&
      dladdr(reinterpret_cast<void*>(functions_.GlobalInit), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  description_ = "Level Zero, " + path;
  if (missing.empty()) return true;
  reason_ = "unusable Level Zero loader " + path + ": symbols missing: " + missing;
  return false;
}

bool Loader::refuse(const char* call, ze::Result result) {
  reason_ = description_ + ": " + text_of(call, result);
  return false;
}

bool Loader::find_gpus() {
  const ze::Functions& ze = functions_;
  // After a failure no other function may be called.
  ze::Result result = ze.GlobalInit(ze::kInitGpuOnly);
  if (result != ze::kSuccess) {
    refuse("zeInit", result);
    // The loader's answer where no driver is installed, or none has a device.
    if (result == ze::kUninitialized) reason_ += ": no driver of a GPU";
    return false;
  }
  uint32_t count = 0;
  result = ze.DriverGet(&count, nullptr);
  if (result != ze::kSuccess) return refuse("zeDriverGet", result);
  std::vector<ze::Driver> drivers(count);
  if (count != 0) result = ze.DriverGet(&count, drivers.data());
  if (result != ze::kSuccess) return refuse("zeDriverGet", result);
  drivers.resize(std::min<size_t>(count, drivers.size()));
  reason_ = description_ + ": Level Zero shows no GPU";
  bool found = true;
  for (const ze::Driver driver : drivers) found = find_gpus_of(driver) && found;
  return found || !gpus_.empty();
}

bool Loader::find_gpus_of(ze::Driver driver) {
  const ze::Functions& ze = functions_;
  uint32_t version = 0;
  ze::Result result = ze.DriverGetApiVersion(driver, &version);
  if (result != ze::kSuccess) return refuse("zeDriverGetApiVersion", result);
  if (version >> 16 != 1) {
    reason_ = description_ + ": a driver of version " + std::to_string(version >> 16) + ", not 1";
    return false;
  }
  uint32_t count = 0;
  result = ze.DeviceGet(driver, &count, nullptr);
  if (result != ze::kSuccess) return refuse("zeDeviceGet", result);
  std::vector<ze::Device> devices(count);
  if (count != 0) result = ze.DeviceGet(driver, &count, devices.data());
  if (result != ze::kSuccess) return refuse("zeDeviceGet", result);
  devices.resize(std::min<size_t>(count, devices.size()));
  ze::Context context = nullptr;
  for (const ze::Device device : devices) {
    ze::DeviceProperties properties;
    if (ze.DeviceGetProperties(device, &properties) != ze::kSuccess ||
        properties.type != ze::kDeviceTypeGpu) {
      continue;
    }
    if (context == nullptr) {
      const ze::ContextDesc desc;
      result = ze.ContextCreate(driver, &desc, &context);
      if (result != ze::kSuccess) return refuse("zeContextCreate", result);
    }
    gpus_.push_back({driver, context, device});
  }
  if (context != nullptr) find_host_imports(driver);
  if (!gpus_.empty()) {
    description_ = "Level Zero 1." + std::to_string(version & 0xffff) +
                   description_.substr(description_.find(','));
  }
  return true;
}

void Loader::find_host_imports(ze::Driver driver) {
  const auto find = functions_.DriverGetExtensionFunctionAddress;
  if (find == nullptr) return;
  void* add = nullptr;
  void* remove = nullptr;
  if (find(driver, ze::kImportExternalPointer, &add) != ze::kSuccess || add == nullptr ||
      find(driver, ze::kReleaseImportedPointer, &remove) != ze::kSuccess || remove == nullptr) {
    return;
  }
  auto imports = std::make_unique<HostImports>();
  imports->add = reinterpret_cast<ze::ImportExternalPointer*>(add);
  imports->remove = reinterpret_cast<ze::ReleaseImportedPointer*>(remove);
  host_imports_.emplace(driver, std::move(imports));
}

HostImports* Loader::host_imports(ze::Driver driver) const {
  const auto found = host_imports_.find(driver);
  return found == host_imports_.end() ? nullptr : found->second.get();
}

bool Loader::can_share_memory(ze::Driver driver) const {
  const ze::Functions& ze = functions_;
  if (ze.DriverGetIpcProperties == nullptr || ze.MemGetAddressRange == nullptr ||
      ze.MemGetIpcHandle == nullptr || ze.MemOpenIpcHandle == nullptr ||
      ze.MemCloseIpcHandle == nullptr) {
    return false;
  }
  ze::DriverIpcProperties properties;
  return ze.DriverGetIpcProperties(driver, &properties) == ze::kSuccess &&
         (properties.flags & ze::kIpcMemory) != 0;
}

void Loader::find_peers() {
  has_peer_copies_ = true;
  for (const Gpu& gpu : gpus_) {
    for (const Gpu& peer : gpus_) {
      uint8_t value = 0;
      const bool is_reached =
          gpu.device == peer.device ||
          (gpu.driver == peer.driver &&
           functions_.DeviceCanAccessPeer(gpu.device, peer.device, &value) == ze::kSuccess &&
           value != 0);
      has_peer_copies_ = has_peer_copies_ && is_reached;
    }
  }
}

}  // namespace keel::gpu
