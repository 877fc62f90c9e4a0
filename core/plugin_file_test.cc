// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

namespace fs = std::filesystem;

class PluginFileTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    std::string name = "/tmp/keel-plugin-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::copy_file(plugin_path("fake"), file_ = folder_ / "libkeel_copy.so");
    ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  }
  void TearDown() override {
    KeelTest::TearDown();
    fs::remove_all(folder_);
  }
  keel_status load_file(const std::string& path, const char* sha256 = nullptr) {
    uint32_t backend = UINT32_MAX;
    const keel_status status = keel_plugin_load(path.c_str(), nullptr, sha256, &backend);
    EXPECT_EQ(backend == UINT32_MAX, status != KEEL_OK);
    return status;
  }
  fs::path folder_;
  fs::path file_;
};

bool says(const std::string& what) {
  return std::string(keel_last_error()).find(what) != std::string::npos;
}

TEST_F(PluginFileTest, LoadsAndNamesInstances) {
  EXPECT_KEEL_OK(load_file(file_));
  EXPECT_KEEL_OK(load_file(file_));
  fs::create_symlink(file_, folder_ / "link.so");
  EXPECT_KEEL_OK(load_file(folder_ / "link.so"));
  const char* names[] = {"fake", "fake#2", "fake#3"};
  for (uint32_t i = 0; i < 3; ++i) {
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    ASSERT_KEEL_OK(keel_backend_get(i, &info));
    EXPECT_STREQ(info.name, names[i]);
    EXPECT_EQ(info.path, file_);
    EXPECT_EQ(info.device_count, 2u);
  }
  keel_device device = {};
  EXPECT_KEEL_OK(keel_device_find("fake#2:1", &device));
}

TEST_F(PluginFileTest, TextsWithoutAnEndAreCut) {
  const std::vector<keel_device> devices = load("fake", {{"devices", "1"}, {"long_texts", "1"}});
  ASSERT_EQ(devices.size(), 1u);
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  ASSERT_KEEL_OK(keel_device_info_get(devices[0], &info));
  EXPECT_EQ(std::string(info.name), std::string(sizeof(info.name) - 1, 'n'));
  EXPECT_EQ(std::string(info.architecture), std::string(sizeof(info.architecture) - 1, 'a'));
  EXPECT_EQ(std::string(info.pci_address), std::string(sizeof(info.pci_address) - 1, 'p'));
  EXPECT_EQ(std::string(info.driver), std::string(sizeof(info.driver) - 1, 'd'));
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  ASSERT_KEEL_OK(keel_device_health_get(devices[0], &health));
  EXPECT_EQ(std::string(health.text), std::string(sizeof(health.text) - 1, 't'));
}

// Two files must be two libraries, even if a descriptor number is reused.
TEST_F(PluginFileTest, DifferentFilesAreDifferentPlugins) {
  EXPECT_KEEL_OK(load_file(file_));
  EXPECT_KEEL_OK(load_file(plugin_path("cpu")));
  auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
  ASSERT_KEEL_OK(keel_backend_get(1, &info));
  EXPECT_STREQ(info.name, "cpu");
}

TEST_F(PluginFileTest, RefusesPaths) {
  EXPECT_EQ(load_file("libkeel_cpu.so"), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(says("absolute"));
  EXPECT_EQ(load_file(folder_ / "missing.so"), KEEL_NOT_FOUND);
  fs::create_directory(folder_ / "folder.so");
  EXPECT_EQ(load_file(folder_ / "folder.so"), KEEL_INVALID_ARGUMENT);
  ASSERT_EQ(mkfifo((folder_ / "pipe.so").c_str(), 0600), 0);
  EXPECT_EQ(load_file(folder_ / "pipe.so"), KEEL_INVALID_ARGUMENT) << "and without blocking";
  std::ofstream(folder_ / "text.so") << "not an ELF file";
  EXPECT_EQ(load_file(folder_ / "text.so"), KEEL_UNAVAILABLE);
}

TEST_F(PluginFileTest, RefusesWhatOthersMayWrite) {
  ASSERT_EQ(chmod(file_.c_str(), 0666), 0);
  EXPECT_EQ(load_file(file_), KEEL_PERMISSION_DENIED);
  EXPECT_TRUE(says("writable by others"));
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_EQ(load_file(file_), KEEL_PERMISSION_DENIED);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  EXPECT_KEEL_OK(load_file(file_));
}

TEST_F(PluginFileTest, RefusesForeignOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(file_.c_str(), 12345, 0), 0);
  EXPECT_EQ(load_file(file_), KEEL_PERMISSION_DENIED);
  EXPECT_TRUE(says("12345"));
  ASSERT_EQ(chown(file_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder_.c_str(), 12345, 0), 0);
  EXPECT_EQ(load_file(file_), KEEL_PERMISSION_DENIED);
}

// ---- SHA-256 pins ------------------------------------------------------------------

class PluginPinTest : public PluginFileTest {
 protected:
  // Returns the SHA-256 of |file|, as printed by a refusal.
  std::string digest_of(const std::string& file) {
    const std::string wrong(64, 'a');
    EXPECT_EQ(load_file(file, wrong.c_str()), KEEL_PERMISSION_DENIED);
    const std::string text = keel_last_error();
    const size_t at = text.find("SHA-256 is ");
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? wrong : text.substr(at + 11, 64);
  }
  // Writes |plugin|'s file with zeros behind it, which the loader ignores: reading the whole file
  // takes milliseconds.
  void write_long(const std::string& plugin, const fs::path& file, size_t more) {
    fs::remove(file);
    fs::copy_file(plugin_path(plugin), file);
    fs::permissions(file, fs::perms(0644));
    fs::resize_file(file, kLong + more);
  }
  // Returns the backend loaded last.
  keel_backend_info loaded_last() {
    uint32_t count = 0;
    EXPECT_KEEL_OK(keel_backend_count(&count));
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    EXPECT_KEEL_OK(keel_backend_get(count - 1, &info));
    return info;
  }
  static constexpr size_t kLong = 2 << 20;
};

// Runs |change| once, on its own thread, as soon as |file| is read.
class WhenRead {
 public:
  WhenRead(const fs::path& file, std::function<void()> change)
      : file_(open(file.c_str(), O_RDONLY | O_CLOEXEC)), inotify_(inotify_init1(IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(inotify_, file.c_str(), IN_ACCESS), 0);
    thread_ = std::thread([this, change = std::move(change)] {
      char event[4096];
      if (read(inotify_, event, sizeof(event)) > 0 && !over_) change();
    });
  }
  ~WhenRead() {
    over_ = true;
    char byte = 0;
    EXPECT_EQ(pread(file_, &byte, 1, 0), 1);  // wakes a thread that saw no read
    thread_.join();
    close(inotify_);
    close(file_);
  }

 private:
  const int file_, inotify_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

TEST_F(PluginPinTest, LoadsWhatHasTheDigestAlone) {
  const std::string digest = digest_of(file_);
  EXPECT_KEEL_OK(load_file(file_, digest.c_str()));
  EXPECT_KEEL_OK(load_file(file_, digest.c_str()));
  EXPECT_STREQ(loaded_last().name, "fake#2");
  EXPECT_EQ(loaded_last().path, file_);
  std::string upper = digest;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_KEEL_OK(load_file(file_, upper.c_str()));
  EXPECT_EQ(load_file(file_, "abc"), KEEL_INVALID_ARGUMENT);
  std::ofstream(file_, std::ios::app) << "more";
  EXPECT_EQ(load_file(file_, digest.c_str()), KEEL_PERMISSION_DENIED);
}

TEST_F(PluginPinTest, FileReplacedMeanwhileIsNotRun) {
  const fs::path other = folder_ / "other.so";
  for (size_t round = 0; round < 3; ++round) {
    write_long("fake", file_, round);
    write_long("null", other, round);
    const std::string digest = digest_of(file_);
    const WhenRead swap(file_, [&] { fs::rename(other, file_); });
    // The file was opened before it was read.
    EXPECT_KEEL_OK(load_file(file_, digest.c_str()));
    EXPECT_TRUE(std::string(loaded_last().name).starts_with("fake")) << loaded_last().name;
  }
}

TEST_F(PluginPinTest, FileModifiedMeanwhileIsNotRun) {
  for (size_t round = 0; round < 3; ++round) {
    write_long("null", file_, round);
    std::ifstream stream(file_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::string digest = digest_of(file_);
    const int writer = open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    keel_status status = KEEL_OK;
    {
      const WhenRead modify(file_, [&] {
        for (size_t at = text.find("Keel tests"); at != std::string::npos;
             at = text.find("Keel tests", at + 1)) {
          EXPECT_EQ(pwrite(writer, "X", 1, static_cast<off_t>(at)), 1);
        }
      });
      status = load_file(file_, digest.c_str());
    }
    close(writer);
    if (status == KEEL_OK) {
      EXPECT_STREQ(loaded_last().vendor, "Keel tests");
    } else {
      EXPECT_EQ(status, KEEL_PERMISSION_DENIED);
      EXPECT_TRUE(says("pinned to")) << keel_last_error();
    }
  }
}

// The running code no longer depends on the file.
TEST_F(PluginPinTest, FileIsNotKeptMapped) {
  EXPECT_KEEL_OK(load_file(file_, digest_of(file_).c_str()));
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_EQ(text.find(file_), std::string::npos);
  EXPECT_NE(text.find("/memfd:libkeel_copy.so"), std::string::npos) << "the name in a profile";
}

TEST_F(PluginPinTest, LibrariesBesideThePluginAreFound) {
  const fs::path plugin = folder_ / "libkeel_needs_beside.so";
  const fs::path library = folder_ / "libkeel_test_beside.so";
  fs::copy_file(plugin_path("needs_beside"), plugin);
  fs::copy_file(fs::path(plugin_path("needs_beside")).replace_filename("libkeel_test_beside.so"),
                library);
  fs::permissions(plugin, fs::perms(0644));
  const std::string digest = digest_of(plugin);
  fs::rename(library, folder_ / "hidden");
  EXPECT_EQ(load_file(plugin, digest.c_str()), KEEL_UNAVAILABLE);
  EXPECT_TRUE(says("libkeel_test_beside.so")) << keel_last_error();
  fs::rename(folder_ / "hidden", library);
  EXPECT_KEEL_OK(load_file(plugin, digest.c_str())) << keel_last_error();
  EXPECT_STREQ(loaded_last().vendor, "a library beside the plugin");
}

// ---- what is wrong with a plugin ------------------------------------------------------

TEST_F(PluginFileTest, RefusesBrokenTables) {
  struct {
    const char* defect;
    keel_status status;
    const char* text;
  } const cases[] = {
      {"no_symbol", KEEL_INVALID_ARGUMENT, "keel_plugin_query_v0"},
      {"abi_major", KEEL_UNSUPPORTED, "ABI major 1"},
      {"small_table", KEEL_INVALID_ARGUMENT, "device table has"},
      {"null_slot", KEEL_INVALID_ARGUMENT, "device.info"},
      {"struct_type", KEEL_INVALID_ARGUMENT, "struct type 5"},
      {"extension", KEEL_UNSUPPORTED, "extension 999"},
      {"query_fails", KEEL_UNSUPPORTED, "query failed"},
      {"instance_fails", KEEL_UNAVAILABLE, "create_instance"},
  };
  uint32_t index = 0;
  for (const auto& [defect, status, text] : cases) {
    const std::string path = plugin_path("bad_" + std::string(defect));
    EXPECT_EQ(load_file(path), status) << defect;
    EXPECT_TRUE(says(text)) << defect << ": " << keel_last_error();
    auto info = KEEL_STRUCT_INIT(keel_backend_info, KEEL_STRUCT_BACKEND_INFO);
    ASSERT_KEEL_OK(keel_backend_get(index++, &info));
    EXPECT_EQ(info.status, status);
    EXPECT_NE(std::string(info.reason).find(text), std::string::npos) << info.reason;
    EXPECT_EQ(info.device_count, 0u);
  }
  EXPECT_FALSE(load("fake").empty()) << "a bad plugin harmed another";
}

TEST_F(PluginFileTest, SettingsAndDevicesThatFail) {
  auto settings = KEEL_STRUCT_INIT(keel_instance_settings, KEEL_STRUCT_INSTANCE_SETTINGS);
  const char* key = "colour";
  const char* value = "blue";
  settings.count = 1;
  settings.keys = &key;
  settings.values = &value;
  uint32_t backend = 0;
  EXPECT_EQ(keel_plugin_load(file_.c_str(), &settings, nullptr, &backend), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(says("colour"));
  key = "fail_open";
  value = "1";
  ASSERT_KEEL_OK(keel_plugin_load(file_.c_str(), &settings, nullptr, &backend));
  keel_device device = {};
  EXPECT_EQ(keel_device_get(0, &device), KEEL_UNAVAILABLE);
  EXPECT_TRUE(says("somebody else"));
}

}  // namespace
}  // namespace keel::testing
