# cmake --install: the programs, the libraries, the headers, and a CMake package.
#   find_package(lacuna)                    lacuna::lacuna, and lacuna::lacuna_cuda where it was built
#   find_package(lacuna COMPONENTS torch)   also lacuna::lacuna_torch; LACUNA_PYTHON names the Python whose torch it uses
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lacuna)

# Every header but those that serve tests: named so, or including GoogleTest or a testing.h.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} lacuna/*.h lacuna/*.cuh)
foreach(header ${headers})
  file(STRINGS ${header} for_tests REGEX "#include.*(gtest/|gmock/|testing\\.h)")
  if(NOT for_tests AND NOT header MATCHES "test")
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  endif()
endforeach()

set(base_targets lacuna lacuna_public_dependencies)
if(TARGET lacuna_cuda)
  list(APPEND base_targets lacuna_cuda)
endif()
install(TARGETS ${base_targets} EXPORT lacunaTargets)
install(EXPORT lacunaTargets NAMESPACE lacuna:: DESTINATION ${package_dir})
if(TARGET lacuna_torch)
  install(TARGETS lacuna_torch EXPORT lacunaTorchTargets)
  install(EXPORT lacunaTorchTargets NAMESPACE lacuna:: DESTINATION ${package_dir})
  install(FILES cmake/FindLacunaTorch.cmake DESTINATION ${package_dir})
endif()
install(TARGETS ${programs})
# What `lacuna bench ladder` and `lacuna bench criteria` compare with.
install(FILES bench/ladder_peers.py bench/plain_models.py bench/plain_predictions.py bench/step.py
              bench/step_opponents.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lacuna/bench)

configure_package_config_file(cmake/lacunaConfig.cmake.in ${CMAKE_BINARY_DIR}/lacunaConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lacunaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lacunaConfig.cmake ${CMAKE_BINARY_DIR}/lacunaConfigVersion.cmake
        DESTINATION ${package_dir})
