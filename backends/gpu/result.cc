// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/result.h"

#include "backends/gpu/capture.h"
#include "backends/gpu/result_codes.h"

namespace keel::gpu {

bool is_fatal(Result result) {
  switch (static_cast<int>(result)) {
    case kErrorContained:
    case kErrorTensorMemoryLeak:
    case kErrorEccUncorrectable:
    case kErrorNvlinkUncorrectable:
    case kErrorIllegalAddress:
    case kErrorLaunchTimeout:
    case kErrorContextIsDestroyed:
    case kErrorAssert:
    case kErrorHardwareStackError:
    case kErrorIllegalInstruction:
    case kErrorMisalignedAddress:
    case kErrorInvalidAddressSpace:
    case kErrorInvalidPc:
    case kErrorLaunchFailed:
    case kErrorMpsClientTerminated:
    case kErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

keel_status status_of(Result result) {
  if (is_fatal(result)) return KEEL_DEVICE_LOST;
  if (is_of_capture(result)) return KEEL_FAILED_PRECONDITION;
  switch (static_cast<int>(result)) {
    case kSuccess:
      return KEEL_OK;
    case kErrorNotReady:
      return KEEL_NOT_READY;
    case kErrorOutOfMemory:
    case kErrorMpsMaxClientsReached:
    case kErrorMpsMaxConnectionsReached:
      return KEEL_OUT_OF_MEMORY;
    case kErrorInvalidValue:
    case kErrorInvalidImage:
    case kErrorInvalidSource:
    case kErrorInvalidPtx:
    case kErrorUnsupportedPtxVersion:
    case kErrorSharedObjectSymbolNotFound:
    case kErrorLaunchOutOfResources:
      return KEEL_INVALID_ARGUMENT;
    case kErrorInvalidDevice:
    case kErrorNotFound:
    case kErrorNoDevice:
      return KEEL_NOT_FOUND;
    case kErrorHostMemoryAlreadyRegistered:
      return KEEL_ALREADY_EXISTS;
    case kErrorHostMemoryNotRegistered:
      return KEEL_FAILED_PRECONDITION;
    case kErrorNotPermitted:
      return KEEL_PERMISSION_DENIED;
    case kErrorNoBinaryForGpu:
    case kErrorNotSupported:
    case kErrorPeerAccessUnsupported:
    case kErrorJitCompilerNotFound:
      return KEEL_UNSUPPORTED;
    case kErrorSystemNotReady:
    case kErrorDeviceUnavailable:
    case kErrorMpsServerNotReady:
    case kErrorTooManyPeers:
      return KEEL_UNAVAILABLE;
    default:
      return KEEL_INTERNAL;
  }
}

}  // namespace keel::gpu
