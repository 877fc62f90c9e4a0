# SPDX-License-Identifier: Apache-2.0
# How a plugin is built, in Keel's tree and, from an installed Keel, out of it.

# keel_add_plugin(NAME SOURCES...): the target keel_NAME, which makes libkeel_NAME.so. It sees
# keel/abi.h, plugin_kit.hpp and float_types.hpp, and exports keel_plugin_query_v0 alone: a
# hidden visibility is not enough for that, since instances of the standard library's templates
# stay visible.
function(keel_add_plugin name)
  add_library(keel_${name} MODULE ${ARGN})
  target_link_libraries(keel_${name} PRIVATE Keel::headers Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(keel_${name} PROPERTIES
    PREFIX lib SUFFIX .so
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map")
  target_link_options(keel_${name} PRIVATE
    "LINKER:--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map"
    "LINKER:--exclude-libs,ALL")
endfunction()
