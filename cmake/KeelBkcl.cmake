# SPDX-License-Identifier: Apache-2.0
# KEEL_BKCL_INCLUDE: folders of bkcl.h and of the headers that it needs. The numbers of BKCL's
# enumerators are in the vendor's header alone: where that is not installed, the plugin is compiled
# with the header of the library over the emulated chip, and serves that library alone.
# KEEL_BKCL_IS_VENDORS says which it is.
find_path(KEEL_BKCL_VENDOR_INCLUDE bkcl.h
  HINTS "$ENV{XCCL_HOME}/include" /usr/local/xccl/include NO_DEFAULT_PATH)
find_path(KEEL_XRE_VENDOR_INCLUDE xpu/runtime.h
  HINTS "$ENV{XRE_HOME}/include" /usr/local/xpu/include NO_DEFAULT_PATH)
if(KEEL_BKCL_VENDOR_INCLUDE AND KEEL_XRE_VENDOR_INCLUDE)
  set(KEEL_BKCL_IS_VENDORS ON CACHE INTERNAL "")
  set(KEEL_BKCL_INCLUDE "${KEEL_BKCL_VENDOR_INCLUDE}" "${KEEL_XRE_VENDOR_INCLUDE}")
else()
  set(KEEL_BKCL_IS_VENDORS OFF CACHE INTERNAL "")
  set(KEEL_BKCL_INCLUDE "${PROJECT_SOURCE_DIR}/emulator/shims/bkcl/include")
  message(STATUS "kunlun backend: no bkcl.h of the vendor's (XCCL_HOME, XRE_HOME): "
                 "collectives on the emulated chip alone")
endif()
