# SPDX-License-Identifier: Apache-2.0
# Debian packages, by `cpack` in the build folder: the runtime, the command, the development
# files, and one a backend, so that a machine carries the dependencies of its own chips alone.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME keel)
set(CPACK_PACKAGE_VENDOR "Keel")
set(CPACK_PACKAGE_CONTACT "Keel <keel@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "One runtime over GPUs, NPUs, Vulkan devices and CPUs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# libkeel.so.0 is of this very build: its package is named below, not looked up.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/lib")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

# keel_package(COMPONENT PACKAGE SUMMARY [DEPENDS components...] [RECOMMENDS packages...])
macro(keel_package component package summary)
  cmake_parse_arguments(arg "" "" "DEPENDS;RECOMMENDS" ${ARGN})
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}")
  set(CPACK_COMPONENT_${upper}_DEPENDS ${arg_DEPENDS})
  list(JOIN arg_RECOMMENDS ", " recommends)
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${recommends}")
endmacro()

set(CPACK_COMPONENTS_ALL)
keel_package(runtime libkeel0 "Keel: the runtime library" RECOMMENDS keel-backend-cpu)
keel_package(tools keel-tools "Keel: devices, operators and conformance from the command line"
             DEPENDS runtime)
keel_package(dev libkeel-dev "Keel: headers, CMake package, a plugin to start from"
             DEPENDS runtime RECOMMENDS keel-tools)
keel_package(doc keel-doc "Keel: documentation")
get_property(backends GLOBAL PROPERTY KEEL_BACKENDS)
foreach(backend IN LISTS backends)
  string(REPLACE "_" "-" name "keel-backend-${backend}")  # which no package's name contains
  keel_package(${backend} ${name} "Keel: the ${backend} backend" DEPENDS runtime)
endforeach()
# Opened at run time, so that no file says it.
set(CPACK_DEBIAN_VULKAN_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers")
set(CPACK_DEBIAN_LEVEL_ZERO_PACKAGE_RECOMMENDS "libze1")
# By hand, since CPack's own would warn of every plugin that it has no soname.
set(control "${CMAKE_CURRENT_BINARY_DIR}/control")
file(CONFIGURE OUTPUT "${control}/triggers" CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT "${control}/shlibs"
     CONTENT "libkeel 0 libkeel0 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${control}/triggers;${control}/shlibs")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
include(CPack)
