# HAJAX_ABI_DIGEST, which hajax.abi.digest() computes too: SHA-256 over the files of hajax/abi in the order of their names.
get_filename_component(HAJAX_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(GLOB HAJAX_ABI_FILES CONFIGURE_DEPENDS "${HAJAX_ROOT}/hajax/abi/*.h" "${HAJAX_ROOT}/hajax/abi/*.def")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HAJAX_ABI_FILES})
list(SORT HAJAX_ABI_FILES)
execute_process(COMMAND "${CMAKE_COMMAND}" -E cat ${HAJAX_ABI_FILES} OUTPUT_FILE "${CMAKE_BINARY_DIR}/abi.bytes" COMMAND_ERROR_IS_FATAL ANY)
file(SHA256 "${CMAKE_BINARY_DIR}/abi.bytes" HAJAX_ABI_DIGEST)
