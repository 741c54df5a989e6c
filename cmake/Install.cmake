# cmake --install BUILD --prefix PREFIX: programs, the Python package, configurations and their data, documents.
# The installed programs need nothing of the build folder; evermoe-worker needs the PyTorch it was built with.
include(GNUInstallDirs)

# The system's libraries, or libraries that somebody put beside the programs.
set(EVERMOE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Side by side, because the configurations name the data by relative paths.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs ${CMAKE_SOURCE_DIR}/data ${CMAKE_SOURCE_DIR}/examples
        DESTINATION ${CMAKE_INSTALL_DATADIR}/evermoe USE_SOURCE_PERMISSIONS)
