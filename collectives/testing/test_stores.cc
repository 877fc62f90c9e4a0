// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/test_stores.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace keel::testing {

namespace {

keel_store make_view(void* user, const char* prefix, decltype(keel_store::set) set,
                     decltype(keel_store::get) get) {
  auto store = KEEL_STRUCT_INIT(keel_store, KEEL_STRUCT_STORE);
  store.user = user;
  store.prefix = prefix;
  store.set = set;
  store.get = get;
  return store;
}

keel_status give(const std::string& value, void* out_data, uint64_t* in_out_size) {
  const uint64_t room = *in_out_size;
  *in_out_size = value.size();
  if (value.size() > room) return KEEL_OUT_OF_RANGE;
  std::memcpy(out_data, value.data(), value.size());
  return KEEL_OK;
}

}  // namespace

keel_store DictionaryStore::view(const char* prefix) {
  return make_view(this, prefix, &DictionaryStore::set, &DictionaryStore::get);
}

void DictionaryStore::set_fault(Fault fault) {
  std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void DictionaryStore::put(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  const auto corrupted = corrupted_.find(key);
  values_[key] = corrupted == corrupted_.end() ? value : corrupted->second;
  changed_.notify_all();
}

void DictionaryStore::corrupt(const std::string& key, const std::string& bytes) {
  std::lock_guard lock(mutex_);
  corrupted_[key] = bytes;
}

bool DictionaryStore::has(const std::string& key) {
  std::lock_guard lock(mutex_);
  return values_.count(key) != 0;
}

std::vector<std::string> DictionaryStore::keys() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const auto& [key, value] : values_) found.push_back(key);
  return found;
}

void DictionaryStore::await(const std::string& key) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return values_.count(key) != 0; });
}

keel_status DictionaryStore::set(void* user, const char* key, const void* data, uint64_t size,
                                 int64_t) {
  auto& self = *static_cast<DictionaryStore*>(user);
  {
    std::lock_guard lock(self.mutex_);
    const keel_status fault = self.fault_ ? self.fault_("set", key) : KEEL_OK;
    if (fault != KEEL_OK) return fault;
  }
  self.put(key, std::string(static_cast<const char*>(data), size));
  return KEEL_OK;
}

keel_status DictionaryStore::get(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                                 int64_t timeout_ns) {
  auto& self = *static_cast<DictionaryStore*>(user);
  std::unique_lock lock(self.mutex_);
  const keel_status fault = self.fault_ ? self.fault_("get", key) : KEEL_OK;
  if (fault != KEEL_OK) return fault;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  const auto is_there = [&] { return self.values_.count(key) != 0; };
  if (!self.changed_.wait_until(lock, until, is_there)) return KEEL_TIMED_OUT;
  return give(self.values_[key], out_data, in_out_size);
}

keel_store FolderStore::view(const char* prefix) {
  return make_view(this, prefix, &FolderStore::set, &FolderStore::get);
}

std::string FolderStore::path(const std::string& key) const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '/', '_');
  return folder_ + '/' + name;
}

keel_status FolderStore::set(void* user, const char* key, const void* data, uint64_t size,
                             int64_t) {
  const std::string path = static_cast<FolderStore*>(user)->path(key);
  const std::string temporary = path + "." + std::to_string(getpid());
  std::ofstream(temporary, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  // A reader sees the whole value or none.
  return std::rename(temporary.c_str(), path.c_str()) == 0 ? KEEL_OK : KEEL_UNAVAILABLE;
}

keel_status FolderStore::get(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                             int64_t) {
  std::ifstream file(static_cast<FolderStore*>(user)->path(key), std::ios::binary);
  if (!file) return KEEL_NOT_FOUND;
  const std::string value(std::istreambuf_iterator<char>(file), {});
  return give(value, out_data, in_out_size);
}

}  // namespace keel::testing
