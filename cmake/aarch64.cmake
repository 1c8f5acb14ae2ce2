# Cross toolchain: aarch64 programs with Debian's compiler and a sysroot made by scripts/sysroot.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

if(NOT DEFINED LAUNCH_SYSROOT)
  set(LAUNCH_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64)
endif()
get_filename_component(LAUNCH_SYSROOT ${LAUNCH_SYSROOT} ABSOLUTE)
set(LAUNCH_SYSROOT ${LAUNCH_SYSROOT} CACHE PATH "Made by scripts/sysroot")
if(NOT EXISTS ${LAUNCH_SYSROOT}/.launch-sysroot)
  message(FATAL_ERROR "${LAUNCH_SYSROOT} is no sysroot: run scripts/sysroot ${LAUNCH_SYSROOT}")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LAUNCH_SYSROOT)

# The compiler's own C library is used for start files; all others come from the sysroot.
set(CMAKE_SYSROOT ${LAUNCH_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${LAUNCH_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(ENV{PKG_CONFIG_SYSROOT_DIR} ${LAUNCH_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${LAUNCH_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${LAUNCH_SYSROOT}/usr/share/pkgconfig)

# Tests run under the emulator.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${LAUNCH_SYSROOT})
