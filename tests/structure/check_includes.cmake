# cmake -P tests/structure/check_includes.cmake: the arrows between folders and the owners of
# third-party headers, as docs/architecture.md draws them. Fails with file and line.
cmake_minimum_required(VERSION 3.25)
if(NOT DEFINED ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
endif()

# Folder -> folders of ours it may include.
set(ALLOWED_common common)
set(ALLOWED_proto common proto)
set(ALLOWED_planner common planner)
set(ALLOWED_preflight common preflight)
set(ALLOWED_diagnosis common diagnosis)
set(ALLOWED_scheduler common scheduler)
set(ALLOWED_controller common proto planner preflight diagnosis scheduler controller)
set(ALLOWED_agent common proto agent)
set(ALLOWED_cli common proto planner preflight diagnosis scheduler cli)

# Folder inside of planner/ -> the others of them it may include; planner/planner.h, the answer of all of them, may be
# included everywhere.
set(WITHIN_line "")
set(WITHIN_model "")
set(WITHIN_cost model)
set(WITHIN_place line cost)
set(WITHIN_trainer line model cost)
set(WITHIN_start line model place trainer)
set(WITHIN_choose model cost place trainer)

# Pure: no threads, sockets, files, environment or system clock.
set(PURE planner preflight diagnosis scheduler controller/core agent/core agent/progress/progress_)
set(IMPURE_HEADERS
  "<(thread|mutex|condition_variable|future|atomic|fstream|iostream|filesystem|cstdlib|ctime|unistd\\.h|fcntl\\.h|netdb\\.h|spawn\\.h|poll\\.h|pthread\\.h|signal\\.h|time\\.h|stdlib\\.h|sys/[a-z_]+\\.h|arpa/[a-z]+\\.h|netinet/[a-z]+\\.h|spdlog/.*|grpcpp/.*|sqlite3\\.h|openssl/.*)>|\"common/(file_system|mailbox|unique_fd|pki)\\.h\"|\"proto/")

# Header pattern | the only files that may include it.
set(OWNED
  "<yaml-cpp/|common/yaml_reader\\.cc"
  "<openssl/|common/(pki[a-z_]*\\.cc|openssl_handles\\.h)"
  "<sqlite3\\.h>|controller/store/sqlite_[a-z_]*\\.(cc|h)"
  "<hwloc|agent/probes/[a-z_]*\\.cc"
  "<re2/|(common/progress_pattern\\.(cc|h)|diagnosis/([a-z_]*\\.cc|bounded_pattern\\.h)|agent/progress/[a-z_]*\\.(cc|h))"
  "<dlfcn\\.h>|agent/probes/nvml_[a-z_]*\\.cc"
  "<spawn\\.h>|agent/(runner|shim|probes)/[a-z_]*\\.cc|cli/daemon\\.cc")

file(GLOB_RECURSE SOURCES RELATIVE ${ROOT}
  ${ROOT}/common/*.h ${ROOT}/common/*.cc ${ROOT}/proto/*.h ${ROOT}/proto/*.cc
  ${ROOT}/planner/*.h ${ROOT}/planner/*.cc ${ROOT}/preflight/*.h ${ROOT}/preflight/*.cc
  ${ROOT}/diagnosis/*.h ${ROOT}/diagnosis/*.cc ${ROOT}/scheduler/*.h ${ROOT}/scheduler/*.cc
  ${ROOT}/controller/*.h ${ROOT}/controller/*.cc ${ROOT}/agent/*.h ${ROOT}/agent/*.cc
  ${ROOT}/cli/*.h ${ROOT}/cli/*.cc)

function(complain file text why)
  message(SEND_ERROR "${file}: ${text}\n  ${why}")
  set(broken ON PARENT_SCOPE)
endfunction()

foreach(file IN LISTS SOURCES)
  string(REGEX MATCH "^[a-z]+" folder ${file})
  set(pure OFF)
  foreach(prefix IN LISTS PURE)
    if(file MATCHES "^${prefix}[/_a-z]" AND NOT file MATCHES "_doc\\.cc$")
      set(pure ON)
    endif()
  endforeach()
  file(STRINGS ${ROOT}/${file} includes REGEX "^ *#include")
  foreach(include IN LISTS includes)
    if(include MATCHES "\"([a-z]+)/[^\"]*\"")
      if(NOT CMAKE_MATCH_1 IN_LIST ALLOWED_${folder})
        complain(${file} "${include}" "${folder}/ must not include ${CMAKE_MATCH_1}/")
      endif()
    endif()
    if(file MATCHES "^planner/([a-z]+)/")
      set(inner ${CMAKE_MATCH_1})
      if(include MATCHES "\"planner/([a-z]+)/" AND NOT CMAKE_MATCH_1 STREQUAL inner
         AND NOT CMAKE_MATCH_1 IN_LIST WITHIN_${inner})
        complain(${file} "${include}" "planner/${inner}/ must not include planner/${CMAKE_MATCH_1}/")
      endif()
    endif()
    if(pure AND include MATCHES "${IMPURE_HEADERS}")
      complain(${file} "${include}" "this folder is pure: no threads, files, sockets, clocks")
    endif()
    foreach(rule IN LISTS OWNED)
      string(FIND "${rule}" "|" bar)
      string(SUBSTRING "${rule}" 0 ${bar} header)
      math(EXPR bar "${bar} + 1")
      string(SUBSTRING "${rule}" ${bar} -1 owner)
      if(include MATCHES "${header}" AND NOT file MATCHES "^(${owner})$")
        complain(${file} "${include}" "this header belongs to ${owner}")
      endif()
    endforeach()
  endforeach()
  if(file MATCHES "\\.h$")
    file(READ ${ROOT}/${file} head LIMIT 8000)
    if(NOT head MATCHES "#pragma once")
      complain(${file} "no #pragma once" "every header has one")
    endif()
    if(NOT head MATCHES "^//")
      complain(${file} "no purpose" "a header opens with one sentence of purpose")
    endif()
  endif()
endforeach()
if(NOT broken)
  message(STATUS "include rules hold")
endif()
