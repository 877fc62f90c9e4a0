// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt on one device: the library handle, and the plans of the queried products.
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/cublaslt_plan.h"
#include "backends/gpu/device.h"
#include "backends/gpu/library_products.h"
#include "backends/gpu/stream.h"

namespace keel::gpu {

class LibraryProducts::Plans {
 public:
  Plans(Device& device, std::string folder) : device_(device), folder_(std::move(folder)) {}
  ~Plans() {
    if (handle_ == nullptr) return;
    (void)device_.release("cublasLtDestroy", [&](const Functions&) {
      (void)lt_->functions().Destroy(handle_);
      return CUDA_SUCCESS;
    });
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // Returns NULL if the library refuses |product|.
  std::shared_ptr<ProductPlan> find(const Product& product) {
    std::call_once(started_, [&] { start(); });
    if (handle_ == nullptr) return nullptr;
    std::shared_ptr<ProductPlan> plan = known(product);
    if (plan == nullptr) plan = make(product);
    if (plan == nullptr || plan->is_refused.load(std::memory_order_relaxed)) return nullptr;
    return plan;
  }

  keel_status run(const Stream& stream, ProductPlan& plan, const Product& product,
                  const Factors& factors, void* workspace, bool* out_ran);

 private:
  // Maximum number of plans, of some 700 bytes each; beyond it the cache is cleared.
  static constexpr size_t kMost = 8192;

  void start() {
    const CublasLt& library = CublasLt::of(folder_);
    if (!library.is_usable()) return;  // CublasLt has logged why
    lt_ = &library;
    cublasStatus_t created = CUBLAS_STATUS_SUCCESS;
    cublasLtHandle_t handle = nullptr;
    const Result asked = device_.ask([&](const Functions&) {
      created = library.functions().Create(&handle);
      return CUDA_SUCCESS;
    });
    if (asked == CUDA_SUCCESS && created == CUBLAS_STATUS_SUCCESS) {
      handle_ = handle;
    } else if (asked == CUDA_SUCCESS) {
      device_.driver().warn_once("cuda: matrix products by Keel's own kernels: " +
                                 library.text_of("cublasLtCreate", created) + "; " +
                                 library.description());
    }
  }

  std::shared_ptr<ProductPlan> known(const Product& product) const {
    const std::shared_lock lock(mutex_);
    const auto found = plans_.find(product);
    return found == plans_.end() ? nullptr : found->second;
  }

  // Queries the library without a lock: if two threads need the same plan, one plan is discarded.
  // Returns NULL, without caching, if the query fails.
  std::shared_ptr<ProductPlan> make(const Product& product) {
    const auto plan = std::make_shared<ProductPlan>();
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const Result asked = device_.ask([&](const Functions&) {
      status = plan_product(lt_->functions(), handle_, product, plan.get());
      return CUDA_SUCCESS;
    });
    if (asked != CUDA_SUCCESS) return nullptr;
    if (is_refusal(status)) {
      plan->is_refused.store(true, std::memory_order_relaxed);
    } else if (status != CUBLAS_STATUS_SUCCESS) {
      device_.driver().warn_once("cuda: a matrix product by Keel's own kernel: " +
                                 lt_->text_of("cublasLtMatmulAlgoGetHeuristic", status));
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost) plans_.clear();  // running calls hold their plan
    return plans_.emplace(product, plan).first->second;
  }

  Device& device_;
  const std::string folder_;
  std::once_flag started_;
  const CublasLt* lt_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;  // NULL: the library is not used
  mutable std::shared_mutex mutex_;
  std::unordered_map<Product, std::shared_ptr<ProductPlan>, ProductHash> plans_;
};

keel_status LibraryProducts::Plans::run(const Stream& stream, ProductPlan& plan,
                                        const Product& product, const Factors& factors,
                                        void* workspace, bool* out_ran) {
  const CublasLtFunctions& lt = lt_->functions();
  cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
  const keel_status status = stream.call("cublasLtMatmul", [&](const Functions& cu) {
    cublasLtMatmulDesc_t operation = &plan.operation;
    cublasLtMatmulDescOpaque_t with_bias;
    if (product.bias) {
      result = describe(lt, product, factors.bias, &with_bias);
      operation = &with_bias;
    }
    if (result == CUBLAS_STATUS_SUCCESS) {
      result = lt.Matmul(handle_, operation, &factors.alpha, factors.b, &plan.first, factors.a,
                         &plan.second, &factors.beta, factors.c, &plan.result, factors.c,
                         &plan.result, &plan.algorithm, workspace,
                         workspace == nullptr ? 0 : kWorkspaceBytes, stream.native());
    }
    if (result == CUBLAS_STATUS_SUCCESS) return CUDA_SUCCESS;
    // The library reports only that a call failed; if the context died, the driver reports the
    // cause.
    size_t free = 0;
    size_t total = 0;
    return cu.MemGetInfo(&free, &total);
  });
  *out_ran = true;
  if (status != KEEL_OK || result == CUBLAS_STATUS_SUCCESS) return status;
  const std::string text = lt_->text_of("cublasLtMatmul", result);
  if (!is_refusal(result)) return kit::fail(status_of(result), "cuda: %s", text.c_str());
  // The library refused despite its heuristic; nothing was enqueued.
  *out_ran = false;
  plan.is_refused.store(true, std::memory_order_relaxed);
  device_.driver().warn_once("cuda: a matrix product by Keel's own kernel: " + text);
  return KEEL_OK;
}

LibraryProducts::LibraryProducts(Device& device, std::string folder)
    : plans_(std::make_unique<Plans>(device, std::move(folder))) {}

LibraryProducts::~LibraryProducts() = default;

bool LibraryProducts::adds_bias() {
  return true;
}

bool LibraryProducts::takes(const Product& product, uint64_t* out_workspace_bytes) {
  const std::shared_ptr<ProductPlan> plan = plans_->find(product);
  if (plan == nullptr) return false;
  *out_workspace_bytes = plan->workspace_bytes == 0 ? 0 : kWorkspaceBytes;
  return true;
}

keel_status LibraryProducts::run(const Stream& stream, const Product& product,
                                 const Factors& factors, void* workspace, bool* out_ran) {
  *out_ran = false;
  const std::shared_ptr<ProductPlan> plan = plans_->find(product);
  if (plan == nullptr) return KEEL_OK;
  // The query saw another alignment, whose plan needed no workspace.
  if (plan->workspace_bytes != 0 && workspace == nullptr) return KEEL_OK;
  return plans_->run(stream, *plan, product, factors, workspace, out_ran);
}

}  // namespace keel::gpu
