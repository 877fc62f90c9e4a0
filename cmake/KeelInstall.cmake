# SPDX-License-Identifier: Apache-2.0
# What an installed Keel offers to find_package(Keel): Keel::keel to frameworks,
# Keel::headers and keel_add_plugin() to plugins. Libraries, plugins and the command install themselves.
include(CMakePackageConfigHelpers)

set(KEEL_PACKAGE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/Keel")
install(EXPORT KeelTargets NAMESPACE Keel:: DESTINATION "${KEEL_PACKAGE_DIRECTORY}" COMPONENT dev)
set(KEEL_INSTALLED_PLUGINS "${CMAKE_INSTALL_LIBDIR}/keel/plugins")
set(KEEL_INSTALLED_COMMAND "${CMAKE_INSTALL_BINDIR}/keel")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/KeelConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/KeelConfig.cmake"
  INSTALL_DESTINATION "${KEEL_PACKAGE_DIRECTORY}"
  PATH_VARS KEEL_INSTALLED_PLUGINS KEEL_INSTALLED_COMMAND)
# While the ABI is v0, a minor version may change it.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/KeelConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/KeelConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/KeelConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/KeelPlugin.cmake" "${CMAKE_CURRENT_LIST_DIR}/plugin.map"
        DESTINATION "${KEEL_PACKAGE_DIRECTORY}" COMPONENT dev)

# The folders a vendor copies come along: they build against this package.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/backends/skeleton"
                  "${PROJECT_SOURCE_DIR}/samples/out_of_tree_plugin"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/keel" COMPONENT dev
        PATTERN "*_test.cc" EXCLUDE)  # needs the tree
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT doc PATTERN Doxyfile EXCLUDE PATTERN *.awk EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc)
