# Links everything but the C library statically, so that one file per program runs wherever glibc is
# new enough (2.35, checked by tests/package). Debian's development packages hold the archives.
#
# Imported targets name shared objects: each is pointed at the archive beside it. spdlog and fmt have
# none and are compiled from their headers; hwloc's archive wants libudev, which has none either.

set(LAUNCH_LIBRARY_DIR ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})

# "/usr/lib/T/libX.so.1.2" or "-lX" -> the archive, or the text as it was.
function(launch_archive_of text out)
  set(${out} "${text}" PARENT_SCOPE)
  if(text MATCHES "^-l(.+)$")
    set(stem lib${CMAKE_MATCH_1})
  elseif(text MATCHES "/(lib[^/]+)\\.so[0-9.]*$")
    set(stem ${CMAKE_MATCH_1})
  else()
    return()
  endif()
  # The C library and its parts stay shared: NVML is opened by dlopen.
  if(stem MATCHES "^lib(c|m|dl|rt|pthread|atomic)$")
    return()
  endif()
  if(EXISTS ${LAUNCH_LIBRARY_DIR}/${stem}.a)
    set(${out} ${LAUNCH_LIBRARY_DIR}/${stem}.a PARENT_SCOPE)
  endif()
endfunction()

function(launch_link_archives)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      continue()
    endif()
    foreach(config "" _NONE _NOCONFIG _RELEASE _DEBUG _RELWITHDEBINFO)
      get_target_property(location ${target} IMPORTED_LOCATION${config})
      if(location)
        launch_archive_of(${location} archive)
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION${config} ${archive})
      endif()
    endforeach()
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    if(links)
      set(replaced)
      foreach(link IN LISTS links)
        launch_archive_of("${link}" archive)
        list(APPEND replaced "${archive}")
      endforeach()
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${replaced}")
    endif()
  endforeach()
endfunction()

launch_link_archives()
add_link_options(-static-libgcc -static-libstdc++ -Wl,--as-needed)
# libstdc++ comes last on the line, behind the archive that has it.
add_link_options(LINKER:--undefined=arc4random)

add_library(launch_fmt STATIC cmake/static/fmt.cc)
add_library(launch_spdlog STATIC cmake/static/spdlog.cc)
target_compile_definitions(launch_spdlog PUBLIC SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
target_link_libraries(launch_spdlog PUBLIC launch_fmt Threads::Threads)
add_library(fmt::fmt ALIAS launch_fmt)
add_library(spdlog::spdlog ALIAS launch_spdlog)
set_target_properties(launch_fmt launch_spdlog PROPERTIES UNITY_BUILD OFF)
add_library(launch_static_stubs STATIC cmake/static/stubs.c cmake/static/arc4random.c)
link_libraries(launch_static_stubs)
