# Warnings, sanitizers, linker and the one helper by which every folder declares its library.

# g++ 12 takes moved variants and optionals for uninitialized at -O2, and anonymous types of a file in a
# batch for those of a header.
add_library(launch_warnings INTERFACE)
target_compile_options(launch_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-field-initializers>
  $<$<BOOL:${LAUNCH_WERROR}>:-Werror>)

if(LAUNCH_SANITIZE STREQUAL "address+undefined")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(LAUNCH_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT LAUNCH_SANITIZE STREQUAL "")
  message(FATAL_ERROR "LAUNCH_SANITIZE: ${LAUNCH_SANITIZE} is not address+undefined or thread")
endif()

# Crash points exist only where this is on: see common/failpoint.h.
if(LAUNCH_FAILPOINTS)
  add_compile_definitions(LAUNCH_FAILPOINTS=1)
endif()

# Where the tree lies is in no release program: a commit gives the same bytes in every directory.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()

find_program(LAUNCH_MOLD mold)
if(LAUNCH_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

# launch_library(NAME SOURCES a.cc ... LINKS common ...): static library launch_NAME.
# LINKS are other folders' names or imported targets; what is not listed cannot be
# linked; tests/structure/check_includes.cmake fails on an include of it.
function(launch_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(launch_${name} STATIC ${ARG_SOURCES})
  target_include_directories(launch_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(launch_${name} PUBLIC ${ARG_LINKS} PRIVATE launch_warnings ${ARG_PRIVATE_LINKS})
endfunction()

# launch_unit_test(NAME [TSAN] SOURCES a_test.cc ... LINKS launch_x ...): one GoogleTest binary,
# label unit. TSAN: threads meet in it, so it also runs under the thread sanitizer (label tsan,
# target tsan_tests). The distribution's gRPC is not instrumented: its own locks are invisible there.
# HEADERS: what most of its files include, parsed once where LAUNCH_TEST_PCH is on (clang only: no
# other build of the project would find what ccache kept of it). HEADERS_OF: those of another test
# with the same LINKS.
option(LAUNCH_TEST_PCH "Parse the headers of each unit test once: for builds from nothing" OFF)
add_custom_target(tsan_tests)
function(launch_test_headers name headers other)
  if(NOT LAUNCH_TEST_PCH OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  target_compile_options(${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # else ccache keeps none
  if(other)
    target_precompile_headers(${name} REUSE_FROM ${other})
  elseif(headers)
    list(TRANSFORM headers PREPEND "${CMAKE_SOURCE_DIR}/")
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${headers})
  endif()
endfunction()
function(launch_unit_test name)
  cmake_parse_arguments(ARG "TSAN" "HEADERS_OF" "SOURCES;LINKS;HEADERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE LAUNCH_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    LAUNCH_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} launch_warnings GTest::gtest_main)
  launch_test_headers(${name} "${ARG_HEADERS}" "${ARG_HEADERS_OF}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
  if(ARG_TSAN)
    add_dependencies(tsan_tests ${name})
    set_tests_properties(${name} PROPERTIES LABELS "unit;tsan" ENVIRONMENT
      "TSAN_OPTIONS=ignore_noninstrumented_modules=1 suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
  endif()
endfunction()
