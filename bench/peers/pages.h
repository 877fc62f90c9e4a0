// SPDX-License-Identifier: Apache-2.0
// Zeroed private pages.
#ifndef KEEL_BENCH_PEERS_PAGES_H_
#define KEEL_BENCH_PEERS_PAGES_H_

#include <cstdint>

namespace keel::bench::peers {

class Pages {
 public:
  explicit Pages(uint64_t bytes);  // throws std::bad_alloc
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* data() const { return data_; }

 private:
  void* data_;
  uint64_t bytes_;
};

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_PAGES_H_
