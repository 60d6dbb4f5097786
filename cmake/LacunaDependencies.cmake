# What the torch-free part needs, from the distribution (docs/dependencies.md says why each).
#   lacuna_public_dependencies    seen in our headers: fmt (header only), nlohmann-json
#   lacuna_private_dependencies   inside the library: LMDB, simdjson, libdeflate, zlib, xxHash, Highway, threads
#   lacuna_cli_dependencies       the program: CLI11
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(simdjson REQUIRED)
find_package(hwy CONFIG QUIET)
find_package(benchmark QUIET)

# LMDB, libdeflate and older Highway ship no CMake package: header and library, by name.
function(lacuna_find_library target header library)
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE_DIR})
endfunction()
lacuna_find_library(lacuna_lmdb lmdb.h lmdb)
lacuna_find_library(lacuna_deflate libdeflate.h deflate)
if(NOT TARGET hwy::hwy)
  lacuna_find_library(lacuna_hwy hwy/highway.h hwy)
else()
  add_library(lacuna_hwy INTERFACE IMPORTED GLOBAL)
  target_link_libraries(lacuna_hwy INTERFACE hwy::hwy)
endif()
find_path(LACUNA_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # used header-only

add_library(lacuna_public_dependencies INTERFACE)
target_link_libraries(lacuna_public_dependencies INTERFACE nlohmann_json::nlohmann_json)
# torch brings its own fmt; compiled fmt libraries would clash, header-only ones differ by inline namespace.
target_include_directories(lacuna_public_dependencies SYSTEM INTERFACE
  $<BUILD_INTERFACE:$<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>>)
target_compile_definitions(lacuna_public_dependencies INTERFACE FMT_HEADER_ONLY=1)

add_library(lacuna_private_dependencies INTERFACE)
target_link_libraries(lacuna_private_dependencies INTERFACE
  $<BUILD_INTERFACE:lacuna_lmdb> $<BUILD_INTERFACE:lacuna_deflate> $<BUILD_INTERFACE:lacuna_hwy>
  $<BUILD_INTERFACE:simdjson::simdjson> Threads::Threads)
target_include_directories(lacuna_private_dependencies SYSTEM INTERFACE
  $<BUILD_INTERFACE:${LACUNA_XXHASH_INCLUDE_DIR}>)

add_library(lacuna_cli_dependencies INTERFACE)
target_link_libraries(lacuna_cli_dependencies INTERFACE CLI11::CLI11)
