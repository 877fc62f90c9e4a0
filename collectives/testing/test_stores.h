// SPDX-License-Identifier: Apache-2.0
// Key-value stores for tests of keel/store.h.
#ifndef KEEL_COLLECTIVES_TESTING_TEST_STORES_H_
#define KEEL_COLLECTIVES_TESTING_TEST_STORES_H_

#include <keel/store.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace keel::testing {

// A dictionary that the ranks of one process share. Thread-safe.
class DictionaryStore {
 public:
  // Fault of a call: the status that "set" or "get" of |key| returns instead of acting; KEEL_OK:
  // none.
  using Fault = std::function<keel_status(const std::string& function, const std::string& key)>;

  // A view for one rank; this object must outlive its use.
  keel_store view(const char* prefix);
  void set_fault(Fault fault);
  // From now on the value of |key| is |bytes|, whatever is set.
  void corrupt(const std::string& key, const std::string& bytes);

  void put(const std::string& key, const std::string& value);
  bool has(const std::string& key);
  std::vector<std::string> keys();
  // Blocks until |key| is there.
  void await(const std::string& key);

 private:
  static keel_status set(void* user, const char* key, const void* data, uint64_t size,
                         int64_t timeout_ns);
  static keel_status get(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                         int64_t timeout_ns);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> corrupted_;
  Fault fault_;
};

// One file a key, in a folder that processes share. Does not wait: KEEL_NOT_FOUND at once.
class FolderStore {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}
  keel_store view(const char* prefix);
  // Path of the file of |key|.
  std::string path(const std::string& key) const;

 private:
  static keel_status set(void* user, const char* key, const void* data, uint64_t size,
                         int64_t timeout_ns);
  static keel_status get(void* user, const char* key, void* out_data, uint64_t* in_out_size,
                         int64_t timeout_ns);

  const std::string folder_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_TEST_STORES_H_
