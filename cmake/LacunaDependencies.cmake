# What the torch-free part needs, from the distribution (docs/dependencies.md says why each).
#   lacuna_public_dependencies    seen in our headers: fmt, nlohmann-json, yaml-cpp
#   lacuna_private_dependencies   inside the library: LMDB, simdjson, libdeflate, zlib, zstd, blosc, HDF5, xxHash, Highway, threads
#   lacuna_cli_dependencies       the program: CLI11
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(hwy CONFIG QUIET)
if(LACUNA_BENCHES)
  find_package(benchmark REQUIRED)
endif()

# LMDB, libdeflate, blosc and older Highway ship no CMake package, and HDF5's needs its compiler wrapper: header and
# library, by name. Debian keeps the HDF5 without MPI in folders of its own.
function(lacuna_find_library target header library)
  find_path(${target}_INCLUDE_DIR ${header} PATH_SUFFIXES ${ARGN} REQUIRED)
  find_library(${target}_LIBRARY ${library} PATH_SUFFIXES ${ARGN} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE_DIR})
endfunction()
lacuna_find_library(lacuna_lmdb lmdb.h lmdb)
lacuna_find_library(lacuna_deflate libdeflate.h deflate)
lacuna_find_library(lacuna_zstd zstd.h zstd)
lacuna_find_library(lacuna_blosc blosc.h blosc)
lacuna_find_library(lacuna_hdf5 hdf5.h hdf5 hdf5/serial)
if(NOT TARGET hwy::hwy)
  lacuna_find_library(lacuna_hwy hwy/highway.h hwy)
else()
  add_library(lacuna_hwy INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lacuna_hwy INTERFACE hwy::hwy)
endif()
find_path(LACUNA_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # used header-only

# Beside torch, fmt is used header-only: torch's libraries carry another fmt, and two compiled ones would clash.
# torch's headers bring that other fmt too, in a folder searched before /usr/include; a folder with nothing but our
# fmt, searched before torch's, keeps one fmt in every file of ours.
get_target_property(fmt_include_dirs fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
find_path(LACUNA_FMT_INCLUDE_DIR fmt/format.h HINTS ${fmt_include_dirs} REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt_first)
file(CREATE_LINK ${LACUNA_FMT_INCLUDE_DIR}/fmt ${CMAKE_BINARY_DIR}/fmt_first/fmt SYMBOLIC)

add_library(lacuna_public_dependencies INTERFACE)
target_include_directories(lacuna_public_dependencies SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/fmt_first>)
set(public_libraries fmt::fmt-header-only nlohmann_json::nlohmann_json yaml-cpp)
if(SKBUILD)  # who builds against a wheel takes those that it brings along (LacunaInstall.cmake)
  target_link_libraries(lacuna_public_dependencies INTERFACE
    "$<BUILD_INTERFACE:${public_libraries}>" $<INSTALL_INTERFACE:lacuna::bundled>)
else()
  target_link_libraries(lacuna_public_dependencies INTERFACE ${public_libraries})
endif()
# Our own torch-free files meet no other fmt: linked, a file compiles in two thirds of the time.
function(lacuna_link_fmt target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-UFMT_HEADER_ONLY>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:fmt::fmt>)
endfunction()
# fmt 9 thinks nvcc has no constexpr and then contradicts itself.
target_compile_definitions(lacuna_public_dependencies INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)

add_library(lacuna_private_dependencies INTERFACE)
target_link_libraries(lacuna_private_dependencies INTERFACE
  lacuna_lmdb lacuna_deflate lacuna_zstd lacuna_blosc lacuna_hdf5 lacuna_hwy simdjson::simdjson ZLIB::ZLIB Threads::Threads)
target_include_directories(lacuna_private_dependencies SYSTEM INTERFACE ${LACUNA_XXHASH_INCLUDE_DIR})

add_library(lacuna_cli_dependencies INTERFACE)
target_link_libraries(lacuna_cli_dependencies INTERFACE CLI11::CLI11)
