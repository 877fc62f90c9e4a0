# SPDX-License-Identifier: Apache-2.0
# How targets of this project are compiled, named and laid out.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")
set(KEEL_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/keel/plugins")
# Vendors' libraries over the emulated chip, a folder each: `keel --emulated` finds them here.
set(KEEL_EMULATED_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/keel/emulated")
# Beside the test programs, which find them there.
set(KEEL_TEST_PLUGIN_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests/plugins")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(KEEL_CCACHE ccache)
if(KEEL_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${KEEL_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KEEL_CCACHE}")
endif()

find_package(Threads REQUIRED)
include(KeelPlugin)

add_compile_options(-Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: it warns of overlap inside std::string::operator+.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(KEEL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(KEEL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(KEEL_SANITIZE STREQUAL "fuzzer")
  # A number of a file that fits no integer is a fault that clang's "undefined" leaves out.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow
                      -fno-sanitize-recover=undefined,float-cast-overflow
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(KEEL_SANITIZE)
  message(FATAL_ERROR
    "KEEL_SANITIZE is '${KEEL_SANITIZE}': empty, address, thread or fuzzer (with clang)")
endif()

# keel_plugin(NAME [UNINSTALLED] SOURCES...): a backend, built as a vendor's plugin is.
function(keel_plugin name)
  cmake_parse_arguments(arg "UNINSTALLED" "" "" ${ARGN})
  keel_add_plugin(${name} ${arg_UNPARSED_ARGUMENTS})
  if(NOT KEEL_SANITIZE)
    target_link_options(keel_${name} PRIVATE "LINKER:--no-undefined")
  endif()
  add_dependencies(keel_thread_tests keel_${name})
  set_target_properties(keel_${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${KEEL_PLUGIN_OUTPUT_DIRECTORY}"
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../..")
  if(NOT arg_UNINSTALLED)
    set_property(GLOBAL APPEND PROPERTY KEEL_BACKENDS ${name})
    install(TARGETS keel_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/keel/plugins
            COMPONENT ${name})
  endif()
endfunction()

# What the thread-sanitizer build needs: its tests, and the plugins they load.
add_custom_target(keel_thread_tests)

# keel_test(NAME SOURCES files... LIBRARIES libs... [GUARD] [VALIDATE] [SIM]
#           [ENVIRONMENT VAR=VALUE...] [THREADS] [IN_TREE]):
# a GoogleTest program, run as one ctest test. GUARD: run once more as NAME.guard
# with KEEL_CPU_GUARD=1, where CPU device memory is out of the host's reach; not under a sanitizer,
# which would see nothing there that the release build does not.
# VALIDATE: run once more as NAME.validate with KEEL_VALIDATE=1, the validation layer.
# SIM: run once more as NAME.sim, with devices of the emulated chip in the CPU's place.
# THREADS: labelled "threads", the tests the thread-sanitizer build runs. IN_TREE: looks at files of
# the source or build tree, so it is not bundled (`./dev bundle --tests`).
function(keel_test name)
  if(NOT KEEL_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "GUARD;VALIDATE;SIM;THREADS;IN_TREE" ""
                        "SOURCES;LIBRARIES;ENVIRONMENT" ${ARGN})
  # Whatever `keel perf --tune` has measured on this machine.
  list(PREPEND arg_ENVIRONMENT "KEEL_COLLECTIVE_TABLE=builtin")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest GTest::gtest_main
                                        Threads::Threads)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(KEEL_SANITIZE)
    # What is looked at is the library: a test's own code takes 4 s to compile so, not 15.
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
  endif()
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(arg_THREADS)
    add_dependencies(keel_thread_tests ${name})
  endif()
  keel_add_test(${name} ${name} "${arg_ENVIRONMENT}" ${arg_THREADS})
  keel_list_test(${name} ${name} "${arg_ENVIRONMENT}" ${arg_IN_TREE})
  if(arg_GUARD AND NOT KEEL_SANITIZE)
    keel_add_test(${name}.guard ${name} "KEEL_CPU_GUARD=1;${arg_ENVIRONMENT}" FALSE)
    keel_list_test(${name}.guard ${name} "KEEL_CPU_GUARD=1;${arg_ENVIRONMENT}" ${arg_IN_TREE})
  endif()
  if(arg_VALIDATE)
    keel_add_test(${name}.validate ${name} "KEEL_VALIDATE=1;${arg_ENVIRONMENT}" ${arg_THREADS})
    keel_list_test(${name}.validate ${name} "KEEL_VALIDATE=1;${arg_ENVIRONMENT}" ${arg_IN_TREE})
    # All it finds, but leaks: "validation: leak: ...".
    set_tests_properties(${name}.validate PROPERTIES
      FAIL_REGULAR_EXPRESSION "validation: ([^l]|l[^e]|le[^a])")
  endif()
  if(arg_SIM)
    set(on_sim "KEEL_TEST_BACKEND=sim;KEEL_BACKENDS=cpu,sim;${arg_ENVIRONMENT}")
    keel_add_test(${name}.sim ${name} "${on_sim}" ${arg_THREADS})
    keel_list_test(${name}.sim ${name} "${on_sim}" ${arg_IN_TREE})
  endif()
endfunction()

function(keel_add_test test_name target environment threads)
  add_test(NAME ${test_name} COMMAND ${target}
           "--gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${test_name}.xml")
  set_tests_properties(${test_name} PROPERTIES TIMEOUT 1200 ENVIRONMENT
    "KEEL_PLUGIN_PATH=${KEEL_PLUGIN_OUTPUT_DIRECTORY};KEEL_TEST_BIN=${CMAKE_BINARY_DIR}/bin;${environment}")
  if(threads)
    set_tests_properties(${test_name} PROPERTIES LABELS threads)
  endif()
endfunction()

# tests/list.txt of the build: for each test that may be bundled its name, its program and
# its environment, with tabs between.
function(keel_list_test test_name target environment in_tree)
  if(NOT in_tree)
    list(JOIN environment "\t" environment)
    set_property(GLOBAL APPEND_STRING PROPERTY KEEL_TEST_LIST
                 "${test_name}\t${target}\t${environment}\n")
  endif()
endfunction()

function(keel_write_test_list)
  get_property(list GLOBAL PROPERTY KEEL_TEST_LIST)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/tests/list.txt" CONTENT "${list}" @ONLY)
endfunction()
