# SPDX-License-Identifier: Apache-2.0
# What an installed Keel offers to find_package(Keel): Keel::keel and Keel::parallel to frameworks,
# Keel::headers and keel_add_plugin() to plugins. Libraries, plugins and the command install themselves.
include(CMakePackageConfigHelpers)

set(KEEL_PACKAGE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/Keel")
install(EXPORT KeelTargets NAMESPACE Keel:: DESTINATION "${KEEL_PACKAGE_DIRECTORY}" COMPONENT dev)
set(KEEL_INSTALLED_PLUGINS "${CMAKE_INSTALL_LIBDIR}/keel/plugins")
set(KEEL_INSTALLED_COMMAND "${CMAKE_INSTALL_BINDIR}/keel")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/KeelConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/installed/KeelConfig.cmake"
  INSTALL_DESTINATION "${KEEL_PACKAGE_DIRECTORY}"
  PATH_VARS KEEL_INSTALLED_PLUGINS KEEL_INSTALLED_COMMAND)
# While the ABI is v0, a minor version may change it.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/KeelConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/installed/KeelConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/KeelConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/KeelPlugin.cmake" "${CMAKE_CURRENT_LIST_DIR}/plugin.map"
        DESTINATION "${KEEL_PACKAGE_DIRECTORY}" COMPONENT dev)

# The sample that a vendor looks into, and the templates of `keel new-plugin`: both build against
# this package.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/samples/out_of_tree_plugin"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/keel" COMPONENT dev)
set(KEEL_SKELETON "${PROJECT_SOURCE_DIR}/backends/skeleton")
install(FILES "${KEEL_SKELETON}/skeleton.cc"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/keel/skeleton" COMPONENT dev)
install(DIRECTORY "${KEEL_SKELETON}/project"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/keel/skeleton" COMPONENT dev)

# The build folder is a prefix, too: `keel new-plugin` finds its templates from there, a vendor the
# sample and the kernels' sources, and find_package(Keel) the headers of the source tree.
foreach(file skeleton.cc project/CMakeLists.txt project/README.md project/conform.yml
        project/gitignore project/waivers.json)
  configure_file("${KEEL_SKELETON}/${file}"
                 "${CMAKE_BINARY_DIR}/share/keel/skeleton/${file}" COPYONLY)
endforeach()
foreach(pair "samples/out_of_tree_plugin;out_of_tree_plugin" "conformance/kernels;conformance_kernels")
  list(POP_FRONT pair folder)
  file(GLOB files RELATIVE "${PROJECT_SOURCE_DIR}/${folder}" "${PROJECT_SOURCE_DIR}/${folder}/*.*")
  foreach(file IN LISTS files)
    configure_file("${PROJECT_SOURCE_DIR}/${folder}/${file}"
                   "${CMAKE_BINARY_DIR}/share/keel/${pair}/${file}" COPYONLY)
  endforeach()
endforeach()
export(EXPORT KeelTargets NAMESPACE Keel:: FILE "${CMAKE_BINARY_DIR}/KeelTargets.cmake")
foreach(file KeelPlugin.cmake plugin.map)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${file}" "${CMAKE_BINARY_DIR}/${file}" COPYONLY)
endforeach()
set(KEEL_INSTALLED_PLUGINS lib/keel/plugins)
set(KEEL_INSTALLED_COMMAND bin/keel)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/KeelConfig.cmake.in"
  "${CMAKE_BINARY_DIR}/KeelConfig.cmake"
  INSTALL_DESTINATION . INSTALL_PREFIX "${CMAKE_BINARY_DIR}"
  PATH_VARS KEEL_INSTALLED_PLUGINS KEEL_INSTALLED_COMMAND)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT doc PATTERN Doxyfile EXCLUDE PATTERN *.awk EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc)
foreach(component dev doc)
  install(CODE "
    set(KEEL_PAGES ${component})
    set(KEEL_PAGE_SOURCE \"${PROJECT_SOURCE_DIR}\")
    set(KEEL_PAGE_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(KEEL_PAGE_DATADIR \"${CMAKE_INSTALL_DATADIR}\")
    set(KEEL_PAGE_DOCDIR \"${CMAKE_INSTALL_DOCDIR}\")
    include(\"${CMAKE_CURRENT_LIST_DIR}/InstalledPages.cmake\")" COMPONENT ${component})
endforeach()
