// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/result.h"

#include "vendor/xre.h"

namespace keel::kunlun {
namespace {

struct Row {
  int error;
  const char* name;  // without the prefix XPUERR_
};
constexpr Row kRows[] = {
    {xre::kInvalidDevice, "INVALID_DEVICE"},
    {xre::kUninit, "UNINIT"},
    {xre::kNoDevice, "NODEV"},
    {xre::kVersion, "VERSION"},
    {xre::kNoMemory, "NOMEM"},
    {xre::kNoCpuMemory, "NOCPUMEM"},
    {xre::kInvalidParameter, "INVALID_PARAM"},
    {xre::kNoFunction, "NOXPUFUNC"},
    {xre::kNoLibrary, "LDSO"},
    {xre::kNoSymbol, "LDSYM"},
    {xre::kSimulator, "SIMULATOR"},
    {xre::kNoSupport, "NOSUPPORT"},
    {xre::kAbnormal, "ABNORMAL"},
    {xre::kKernelException, "KEXCEPTION"},
    {xre::kTimeout, "TIMEOUT"},
    {xre::kBusy, "BUSY"},
    {xre::kUseAfterClose, "USEAFCLOSE"},
    {xre::kUncorrectableEcc, "UCECC"},
    {xre::kOverheat, "OVERHEAT"},
    {xre::kUnexpected, "UNEXPECT"},
    {xre::kDeviceReset, "DEVRESET"},
    {xre::kHardwareException, "HWEXCEPTION"},
    {xre::kMemoryInit, "HBM_INIT"},
    {xre::kDeviceInit, "DEVINIT"},
    {xre::kPeerReset, "PEERRESET"},
    {xre::kTooManyDevices, "MAXDEV"},
    {xre::kNoIoContext, "NOIOC"},
    {xre::kDmaTimeout, "DMATIMEOUT"},
    {xre::kDmaAbort, "DMAABORT"},
    {xre::kControllerInit, "MCUUNINIT"},
    {xre::kOldFirmware, "OLDFW"},
    {xre::kPcie, "PCIE"},
    {xre::kFault, "FAULT"},
    {xre::kInterrupted, "INTERRUPTED"},
    {xre::kAesTimeout, "AESTIMEOUT"},
    {xre::kHostMemoryRegistered, "HOSTMEM_ALREADY_REGISTERED"},
    {xre::kTracer, "TRACER"},
};

}  // namespace

// XRE documents no way to continue after a failure of work, so each error that only failed work or
// a failed chip causes counts.
bool is_fatal(int error) {
  switch (error) {
    case xre::kAbnormal:
    case xre::kKernelException:
    case xre::kUncorrectableEcc:
    case xre::kDeviceReset:
    case xre::kHardwareException:
    case xre::kMemoryInit:
    case xre::kDmaTimeout:
    case xre::kDmaAbort:
    case xre::kPcie:
    case xre::kFault:
      return true;
    default:
      return false;
  }
}

keel_status status_of(int error) {
  if (is_fatal(error)) return KEEL_DEVICE_LOST;
  switch (error) {
    case xre::kSuccess:
      return KEEL_OK;
    case xre::kNoMemory:
    case xre::kNoCpuMemory:
      return KEEL_OUT_OF_MEMORY;
    case xre::kInvalidParameter:
      return KEEL_INVALID_ARGUMENT;
    case xre::kInvalidDevice:
    case xre::kNoDevice:
      return KEEL_NOT_FOUND;
    case xre::kNoSupport:
      return KEEL_UNSUPPORTED;
    case xre::kBusy:
    case xre::kOverheat:
    case xre::kInterrupted:
      return KEEL_UNAVAILABLE;
    case xre::kHostMemoryRegistered:
      return KEEL_ALREADY_EXISTS;
    default:
      return KEEL_INTERNAL;
  }
}

std::string text_of(const char* call, int error) {
  const std::string number = std::to_string(error);
  for (const Row& row : kRows) {
    if (row.error == error) return std::string(call) + ": XPUERR_" + row.name + " (" + number + ")";
  }
  return std::string(call) + ": error " + number;
}

}  // namespace keel::kunlun
