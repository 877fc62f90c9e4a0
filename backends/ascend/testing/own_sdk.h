// SPDX-License-Identifier: Apache-2.0
// The plugin as core loads it, and an SDK for one test: copies of the libraries over the emulated
// chip, with fresh state, from which symbols can be removed.
#ifndef KEEL_BACKENDS_ASCEND_TESTING_OWN_SDK_H_
#define KEEL_BACKENDS_ASCEND_TESTING_OWN_SDK_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <keel/abi.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace keel::testing {

// The plugin's last error text on this thread.
inline thread_local std::string t_error;

inline const keel_plugin* query_plugin() {
  static const keel_host host = {
      {sizeof(keel_host), KEEL_STRUCT_HOST, nullptr},
      nullptr,
      [](void*, keel_log_level, const char*) {},
      [](void*, const char* text) { t_error = text; },
  };
  void* const library = dlopen(KEEL_ASCEND_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query =
      reinterpret_cast<keel_plugin_query_fn>(dlsym(library, KEEL_PLUGIN_QUERY_SYMBOL));
  const keel_plugin* plugin = nullptr;
  return query != nullptr && query(&host, &plugin) == KEEL_OK ? plugin : nullptr;
}

class OwnSdk {
 public:
  // |settings|: as in KEEL_EMULATED_ASCEND, which stays set while this object lives, because the
  // library reads the variable on its first call.
  explicit OwnSdk(const std::string& settings = "") {
    static int count = 0;
    folder_ = ::testing::TempDir() + "keel_ascend_" + std::to_string(getpid()) + "_" +
              std::to_string(count++);
    std::filesystem::create_directories(folder_);
    for (const char* file : {"libascendcl.so", "libhccl.so", "libnnopbase.so", "libopapi.so"}) {
      std::filesystem::copy_file(std::string(KEEL_EMULATED_ASCEND_FOLDER) + "/" + file, path(file));
    }
    setenv("KEEL_EMULATED_ASCEND", settings.c_str(), 1);
  }
  // The libraries stay loaded.
  ~OwnSdk() {
    unsetenv("KEEL_EMULATED_ASCEND");
    std::filesystem::remove_all(folder_);
  }
  OwnSdk(const OwnSdk&) = delete;
  OwnSdk& operator=(const OwnSdk&) = delete;

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }

 private:
  std::string folder_;
};

// An instance of the plugin on |sdk|, with its devices.
class OwnInstance {
 public:
  explicit OwnInstance(const std::string& folder) : plugin_(query_plugin()) {
    const char* const key = "library_folder";
    const char* const value = folder.c_str();
    const keel_instance_settings settings = {
        {sizeof(settings), KEEL_STRUCT_INSTANCE_SETTINGS, nullptr}, 1, 0, &key, &value};
    EXPECT_EQ(plugin_->create_instance(&settings, &instance_), KEEL_OK) << t_error;
    t_error.clear();
    EXPECT_EQ(plugin_->device->count(instance_, &count_), KEEL_OK);
    reason_ = t_error;
  }
  ~OwnInstance() { plugin_->destroy_instance(instance_); }
  OwnInstance(const OwnInstance&) = delete;
  OwnInstance& operator=(const OwnInstance&) = delete;

  const keel_plugin& plugin() const { return *plugin_; }
  keel_plugin_instance* get() const { return instance_; }
  uint32_t count() const { return count_; }
  // Why there is no device.
  const std::string& reason() const { return reason_; }
  uint64_t capabilities() const {
    keel_device_info info = {};
    info.header = {sizeof(info), KEEL_STRUCT_DEVICE_INFO, nullptr};
    EXPECT_EQ(plugin_->device->info(instance_, 0, &info), KEEL_OK) << t_error;
    return info.capabilities;
  }

 private:
  const keel_plugin* const plugin_;
  keel_plugin_instance* instance_ = nullptr;
  uint32_t count_ = 0;
  std::string reason_;
};

}  // namespace keel::testing

#endif  // KEEL_BACKENDS_ASCEND_TESTING_OWN_SDK_H_
