// SPDX-License-Identifier: Apache-2.0
#include "bench/cublas_peer.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace keel::bench {

namespace {

// Same search as in the plugin, so that both find the same library.
constexpr const char* kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
// The toolkit's folder, used if the library is in no search path.
constexpr char kToolkitFolder[] = "/usr/local/cuda/lib64/";

#define KEEL_CUBLAS_FUNCTIONS(X)   \
  X(Create)                        \
  X(Destroy)                       \
  X(GetStatusName)                 \
  X(GetVersion)                    \
  X(MatmulDescInit_internal)       \
  X(MatmulDescSetAttribute)        \
  X(MatrixLayoutInit_internal)     \
  X(MatmulPreferenceInit_internal) \
  X(MatmulPreferenceSetAttribute)  \
  X(MatmulAlgoGetHeuristic)        \
  X(Matmul)

struct Functions {
#define KEEL_CUBLAS_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  KEEL_CUBLAS_FUNCTIONS(KEEL_CUBLAS_MEMBER)
#undef KEEL_CUBLAS_MEMBER
};

// Opened once and never closed, like the driver.
bool open_library(Functions* out_functions, std::string* out_reason) {
  static void* const library = [] {
    // The folder that the plugin uses.
    const char* const folder = std::getenv("KEEL_CUBLASLT_LIBRARY_FOLDER");
    const std::string told = folder == nullptr || *folder == '\0' ? "" : folder + std::string("/");
    for (const std::string& in : {told, std::string(kToolkitFolder)}) {
      for (const char* const name : kLibraries) {
        void* const found = dlopen((in + name).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (found != nullptr) return found;
      }
    }
    return static_cast<void*>(nullptr);
  }();
  if (library == nullptr) {
    *out_reason = std::string(kLibraries[0]) + " and its like are not here";
    return false;
  }
  std::string missing;
  const auto find = [&](const char* name, auto* out_function) {
    void* const address = dlsym(library, name);
    if (address == nullptr) missing = name;
    std::memcpy(out_function, &address, sizeof(address));
  };
#define KEEL_CUBLAS_FIND(name) find("cublasLt" #name, &out_functions->name);
  KEEL_CUBLAS_FUNCTIONS(KEEL_CUBLAS_FIND)
#undef KEEL_CUBLAS_FIND
  if (!missing.empty()) *out_reason = "cuBLASLt has no " + missing;
  return missing.empty();
}

class Library final : public CublasPeer {
 public:
  bool open(std::string* out_reason) {
    if (!open_library(&lt_, out_reason)) return false;
    const cublasStatus_t created = lt_.Create(&handle_);
    if (created == CUBLAS_STATUS_SUCCESS) return true;
    *out_reason = fmt::format("cublasLtCreate: {}", lt_.GetStatusName(created));
    return false;
  }

  ~Library() override {
    if (handle_ != nullptr) (void)lt_.Destroy(handle_);
  }

  // The library prefers column-major order, in which a row-major matrix is its transpose: c^T =
  // op(b)^T op(a)^T, so b comes first and both operands keep their flags.
  void prepare(const Product& product, void* workspace, uint64_t workspace_bytes) override {
    const cudaDataType_t type = product.dtype == KEEL_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
    check(lt_.MatmulDescInit_internal(&operation_, sizeof(operation_), CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F),
          "cublasLtMatmulDescInit");
    set_transposed(CUBLASLT_MATMUL_DESC_TRANSA, product.trans_b);
    set_transposed(CUBLASLT_MATMUL_DESC_TRANSB, product.trans_a);
    make_layout(&first_, type, product.trans_b ? product.n : product.k,
                product.trans_b ? product.k : product.n);
    make_layout(&second_, type, product.trans_a ? product.k : product.m,
                product.trans_a ? product.m : product.k);
    make_layout(&result_, type, product.m, product.n);

    workspace_ = workspace;
    workspace_bytes_ = workspace_bytes;
    cublasLtMatmulPreferenceOpaque_t preference;
    check(lt_.MatmulPreferenceInit_internal(&preference, sizeof(preference)),
          "cublasLtMatmulPreferenceInit");
    check(lt_.MatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &workspace_bytes, sizeof(workspace_bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    check(lt_.MatmulAlgoGetHeuristic(handle_, &operation_, &first_, &second_, &result_, &result_,
                                     &preference, /*requestedAlgoCount=*/1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw std::runtime_error("cuBLASLt knows no kernel for the product");
    algorithm_ = found.algo;
  }

  void multiply(const void* a, const void* b, void* c, void* stream) override {
    const float one = 1;
    const float zero = 0;
    check(lt_.Matmul(handle_, &operation_, &one, b, &first_, a, &second_, &zero, c, &result_, c,
                     &result_, &algorithm_, workspace_, workspace_bytes_,
                     static_cast<cudaStream_t>(stream)),
          "cublasLtMatmul");
  }

  std::string describe() const override {
    const size_t version = lt_.GetVersion();
    return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

 private:
  void check(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw std::runtime_error(fmt::format("{}: {}", call, lt_.GetStatusName(status)));
  }
  void set_transposed(cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const int32_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt_.MatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
  // Makes the layout of a row-major matrix [rows, columns].
  void make_layout(cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type, int64_t rows,
                   int64_t columns) {
    check(
        lt_.MatrixLayoutInit_internal(layout, sizeof(*layout), type, static_cast<uint64_t>(columns),
                                      static_cast<uint64_t>(rows), /*ld=*/columns),
        "cublasLtMatrixLayoutInit");
  }

  Functions lt_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t operation_ = {};
  cublasLtMatrixLayoutOpaque_t first_ = {};  // of b, the library's A
  cublasLtMatrixLayoutOpaque_t second_ = {};
  cublasLtMatrixLayoutOpaque_t result_ = {};
  cublasLtMatmulAlgo_t algorithm_ = {};
  void* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CublasPeer> CublasPeer::open(std::string* out_reason) {
  auto library = std::make_unique<Library>();
  if (!library->open(out_reason)) return nullptr;
  return library;
}

}  // namespace keel::bench
