// SPDX-License-Identifier: Apache-2.0
#include "bench/openblas_peer.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

namespace keel::bench {

namespace {

// CBLAS constants.
constexpr int kRowMajor = 101;
constexpr int kAsStored = 111;
constexpr int kTransposed = 112;

template <typename Function>
void find(void* library, const char* name, Function* out_function) {
  *out_function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::unique_ptr<OpenblasPeer> OpenblasPeer::open(std::string* out_why) {
  // OpenBLAS's idle threads spin for 2^26 cycles by default, on cores that the next contender
  // needs; with 2^22 they sleep before the pause between contenders ends.
  setenv("OPENBLAS_THREAD_TIMEOUT", "22", /*overwrite=*/0);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *out_why = "OpenBLAS is not installed (Debian: libopenblas-dev)";
    return nullptr;
  }
  std::unique_ptr<OpenblasPeer> peer(new OpenblasPeer);
  const char* (*get_config)() = nullptr;
  find(library, "cblas_sgemm", &peer->sgemm_);
  find(library, "cblas_sgemv", &peer->sgemv_);
  find(library, "cblas_sbgemm", &peer->sbgemm_);
  find(library, "openblas_set_num_threads", &peer->set_threads_);
  find(library, "openblas_get_config", &get_config);
  if (peer->sgemm_ == nullptr || peer->sgemv_ == nullptr || peer->set_threads_ == nullptr ||
      get_config == nullptr) {
    *out_why = "libopenblas.so.0 lacks cblas_sgemm or openblas_set_num_threads";
    return nullptr;
  }
  // "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
  std::istringstream config(get_config());
  std::string library_name, version;
  config >> library_name >> version;
  peer->name_ = fmt::format("{} {}", library_name, version);
  return peer;
}

void OpenblasPeer::multiply(const Product& product, const float* a, const float* b, float* c,
                            uint32_t threads) const {
  set_threads_(static_cast<int>(threads));
  const int m = static_cast<int>(product.m);
  const int n = static_cast<int>(product.n);
  const int k = static_cast<int>(product.k);
  if (n == 1) {
    sgemv_(kRowMajor, kAsStored, m, k, 1.0f, a, k, b, 1, 0.0f, c, 1);
  } else if (m == 1) {
    sgemv_(kRowMajor, kTransposed, k, n, 1.0f, b, n, a, 1, 0.0f, c, 1);
  } else {
    sgemm_(kRowMajor, kAsStored, kAsStored, m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
  }
}

void OpenblasPeer::multiply_bf16(const Product& product, const void* a, const void* b, float* c,
                                 uint32_t threads) const {
  set_threads_(static_cast<int>(threads));
  const int m = static_cast<int>(product.m);
  const int n = static_cast<int>(product.n);
  const int k = static_cast<int>(product.k);
  sbgemm_(kRowMajor, kAsStored, kAsStored, m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
}

}  // namespace keel::bench
