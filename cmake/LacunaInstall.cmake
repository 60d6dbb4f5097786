# cmake --install: the programs, the libraries, the headers, a CMake package, the configs, and the Python package.
#   find_package(lacuna)                    lacuna::lacuna, and lacuna::lacuna_cuda where it was built
#   find_package(lacuna COMPONENTS torch)   also lacuna::lacuna_torch; LACUNA_PYTHON names the Python whose torch it uses
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lacuna)

# The headers that are a promise: what reads a screen, loads batches, computes, and adds a model.
set(public_headers
    core/array.h core/dtype.h core/error.h core/random.h core/scope.h core/system/progress.h core/system/stop.h
    core/text/settings.h
    graph/generate_graph.h graph/graph_plan.h graph/hetero_graph.h graph/names.h graph/removal.h graph/shuffle_graph.h
    ops/aggregate/aggregate.h ops/aggregate/aggregate_cuda.h ops/bipartite/bipartite.h ops/bipartite/bipartite_cuda.h
    ops/cast/cast.h ops/cast/cast_cuda.h ops/masks/masks.h ops/masks/masks_cuda.h
    screen/concat.h screen/generate_screen.h screen/samples.h screen/screen.h screen/screen_batch.h screen/splits/split.h
    screen/subset.h screen/summary.h
    masks/mask_store.h masks/prepare_masks.h masks/verify_masks.h
    load/loader.h load/order.h
    ladder/rung.h ladder/rung_source.h ladder/screen_rungs.h
    torch/stop_point.h
    nn/gene_graph.h nn/heads.h nn/hidden_genes.h nn/layers.h nn/model.h)
# What those include.
set(included_headers
    core/hash.h core/seal.h core/system/file.h core/system/scratch.h core/text/json.h core/text/printable.h
    store/directory.h store/directory_format.h store/directory_lock.h store/fingerprint.h store/manifest.h store/npy.h
    ops/cone/cone.h ops/cuda/cuda_graph.h ops/slab/slab_plan.h
    screen/noise.h screen/plan_cache.h
    run/model_settings.h
    torch/cone.h torch/fused_mlp.h)
foreach(header ${public_headers} ${included_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES lacuna/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lacuna/${folder})
endforeach()

# In a wheel also the headers of others that ours include: the wheel has a yaml-cpp of its own, whose headers no other
# version may stand in for, and so nothing but a compiler is needed to build against it.
if(SKBUILD)
  set(bundled_dir ${CMAKE_INSTALL_INCLUDEDIR}/lacuna-dependencies)
  foreach(header_and_package fmt:libfmt-dev nlohmann:nlohmann-json3-dev yaml-cpp:libyaml-cpp-dev)
    string(REPLACE ":" ";" pair ${header_and_package})
    list(GET pair 0 name)
    list(GET pair 1 package)
    find_path(LACUNA_BUNDLED_${name} ${name} HINTS ${LACUNA_FMT_INCLUDE_DIR} REQUIRED)
    install(DIRECTORY ${LACUNA_BUNDLED_${name}}/${name} DESTINATION ${bundled_dir})
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${bundled_dir} RENAME ${name}.licence OPTIONAL)
  endforeach()
endif()

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
install(FILES bench/ladder_peers.py bench/plain_models.py bench/plain_predictions.py bench/recording_peers.py bench/step.py
              bench/step_opponents.py bench/transform_function.py bench/xlsx_table.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/lacuna/bench)

install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/lacuna)

# The Python package, where a Python of the version that it was built with looks for packages under this prefix; its
# libraries are those above (python/lacuna/_library.py). A wheel has its own way.
if(TARGET lacuna_core AND NOT SKBUILD)
  set(python_folder lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}/site-packages)
  file(WRITE ${CMAKE_BINARY_DIR}/python_folder ${python_folder})
  install(DIRECTORY python/lacuna DESTINATION ${python_folder} PATTERN __pycache__ EXCLUDE)
  install(TARGETS lacuna_core DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_BINARY_DIR}/built_for_torch DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

configure_package_config_file(cmake/lacunaConfig.cmake.in ${CMAKE_BINARY_DIR}/lacunaConfig.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lacunaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lacunaConfig.cmake ${CMAKE_BINARY_DIR}/lacunaConfigVersion.cmake
        DESTINATION ${package_dir})
