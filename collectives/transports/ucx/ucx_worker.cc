// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_worker.h"

#include <utility>

namespace keel {

namespace {

Status ucx_failure(const UcxLibrary& library, ucx::Result result, const char* what) {
  return failure(result == ucx::Result::kNoMemory ? KEEL_OUT_OF_MEMORY : KEEL_UNAVAILABLE,
                 "UCX {}: {}: {}", library.version(), what, library.text(result));
}

}  // namespace

Status UcxWorker::open(const UcxLibrary& library, bool is_loopback, size_t peers,
                       ucx::MessageCallback on_message, void* argument) {
  library_ = &library;
  const ucx::Functions& ucp = library_->functions();
  ucx::Config* config = nullptr;
  ucx::Result result = ucp.config_read(nullptr, nullptr, &config);
  if (result != ucx::Result::kOk) return ucx_failure(*library_, result, "ucp_config_read");
  // Without a secret no port may be open to other hosts.
  if (is_loopback) result = ucp.config_modify(config, "NET_DEVICES", "lo");
  if (result == ucx::Result::kOk) {
    ucx::Params params = {};
    params.field_mask = ucx::Params::kFeatures | ucx::Params::kEstimatedEndpoints;
    params.features = ucx::kFeatureActiveMessages | ucx::kFeatureWakeup;
    params.estimated_num_eps = peers;
    result = ucp.init_version(ucx::kApiMajor, ucx::kApiMinor, &params, config, &context_);
  }
  ucp.config_release(config);
  if (result != ucx::Result::kOk) {
    context_ = nullptr;
    return ucx_failure(*library_, result, "no context (UCX_TLS, UCX_NET_DEVICES)");
  }
  ucx::WorkerParams worker = {};
  worker.field_mask = ucx::WorkerParams::kThreadMode;
  worker.thread_mode = ucx::ThreadMode::kSerialized;
  result = ucp.worker_create(context_, &worker, &worker_);
  if (result != ucx::Result::kOk) {
    worker_ = nullptr;
    return ucx_failure(*library_, result, "no worker");
  }
  ucx::HandlerParam handler = {};
  handler.field_mask = ucx::HandlerParam::kId | ucx::HandlerParam::kFlags |
                       ucx::HandlerParam::kCallback | ucx::HandlerParam::kArgument;
  handler.id = kMessageId;
  handler.flags = ucx::HandlerParam::kWholeMessage | ucx::HandlerParam::kPersistentData;
  handler.callback = on_message;
  handler.argument = argument;
  result = ucp.worker_set_am_recv_handler(worker_, &handler);
  if (result != ucx::Result::kOk) return ucx_failure(*library_, result, "no active messages");
  result = ucp.worker_get_efd(worker_, &descriptor_);
  if (result != ucx::Result::kOk) return ucx_failure(*library_, result, "no event descriptor");
  result = ucp.worker_get_address(worker_, &address_, &address_size_);
  if (result != ucx::Result::kOk || address_size_ > kMostAddressBytes) {
    return ucx_failure(*library_, result, "no address of the worker");
  }
  return {};
}

void UcxWorker::close() {
  if (library_ == nullptr) return;
  const ucx::Functions& ucp = library_->functions();
  if (address_ != nullptr) ucp.worker_release_address(worker_, std::exchange(address_, nullptr));
  if (worker_ != nullptr) ucp.worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) ucp.cleanup(std::exchange(context_, nullptr));
  descriptor_ = -1;
}

ByteView UcxWorker::address() const {
  return {reinterpret_cast<const uint8_t*>(address_), address_size_};
}

Status UcxWorker::connect(ByteView address, ucx::ErrorCallback on_error, void* argument,
                          ucx::Endpoint** out_endpoint) {
  ucx::EndpointParams params = {};
  params.field_mask = ucx::EndpointParams::kRemoteAddress | ucx::EndpointParams::kErrorMode |
                      ucx::EndpointParams::kErrorHandler;
  params.address = reinterpret_cast<const ucx::Address*>(address.data());
  params.err_mode = ucx::ErrorHandling::kPeer;
  params.err_handler = {on_error, argument};
  const ucx::Result result = library_->functions().ep_create(worker_, &params, out_endpoint);
  if (result == ucx::Result::kOk) return {};
  *out_endpoint = nullptr;
  return ucx_failure(*library_, result,
                     "no transport reaches the peer (UCX_TLS, UCX_NET_DEVICES of both hosts)");
}

ucx::Pending UcxWorker::disconnect(ucx::Endpoint* endpoint, bool is_forced) {
  ucx::RequestParam param = {};
  param.op_attr_mask = ucx::RequestParam::kFlags;
  param.flags = is_forced ? ucx::kCloseForce : 0;
  const ucx::Pending pending = library_->functions().ep_close_nbx(endpoint, &param);
  return ucx::is_error(pending) ? nullptr : pending;
}

bool UcxWorker::is_pending(ucx::Pending pending) const {
  return ucx::is_request(pending) &&
         library_->functions().request_check_status(pending) == ucx::Result::kInProgress;
}

void UcxWorker::free(ucx::Pending pending) const {
  if (ucx::is_request(pending)) library_->functions().request_free(pending);
}

}  // namespace keel
