# What `cmake --install` puts where, and the packages that CPack makes of it: a .deb and an archive
# that may lie anywhere. The wheel is made of the same files (tools/dev_tool/package.py).
#
# LibTorch is no part of any of them: bin/phasescope-worker (worker/launcher.cpp) finds it and becomes
# lib/phasescope/phasescope-worker, whose run path CMake takes out.

if(NOT TARGET phasescope OR NOT TARGET phasescope-worker)
  return()
endif()

set(torch_version "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${PHASESCOPE_TORCH_DIR}/include/torch/headeronly/version.h line
    REGEX "define TORCH_VERSION_${part} [0-9]+")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  list(APPEND torch_version ${number})
endforeach()
list(JOIN torch_version "." torch_version)
add_executable(phasescope_launcher worker/launcher.cpp)
target_compile_definitions(phasescope_launcher PRIVATE PHASESCOPE_TORCH_VERSION="${torch_version}")
phasescope_warnings(phasescope_launcher)

install(TARGETS phasescope RUNTIME DESTINATION bin)
install(TARGETS phasescope-worker RUNTIME DESTINATION lib/phasescope)
install(PROGRAMS $<TARGET_FILE:phasescope_launcher> DESTINATION bin RENAME phasescope-worker)
set(private_libraries ${PHASESCOPE_TORCH_DIR}/lib)
if(PHASESCOPE_CUDA)
  # The worker's kernels ask for the CUDA runtime, which a LibTorch for CPUs alone does not bring.
  file(REAL_PATH ${CUDA_cudart_LIBRARY} runtime)
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_CUDA_COMPILER_VERSION})
  install(FILES ${runtime} DESTINATION lib/phasescope RENAME libcudart.so.${major})
  get_filename_component(folder ${CUDA_cudart_LIBRARY} DIRECTORY)
  list(APPEND private_libraries ${folder})
endif()
install(DIRECTORY assets/models assets/texts assets/claims DESTINATION share/phasescope)
install(FILES assets/first_session.safetensors DESTINATION share/phasescope)
install(DIRECTORY sample_configs DESTINATION share/phasescope)
install(FILES tools/make_corpus.py DESTINATION share/phasescope/tools)
install(DIRECTORY tools/python DESTINATION share/phasescope PATTERN __pycache__ EXCLUDE)
install(FILES assets/desktop/phasescope.desktop DESTINATION share/applications)
install(FILES assets/desktop/phasescope.svg DESTINATION share/icons/hicolor/scalable/apps)
# Debian's desktop-file-utils and shared-mime-info take these two in by triggers of their own.
install(FILES assets/desktop/phasescope.xml DESTINATION share/mime/packages)
install(FILES README.md LICENSE DESTINATION share/doc/phasescope)
install(DIRECTORY docs DESTINATION share/doc/phasescope)

# For bug reports: the commit, where this is a checkout.
install(CODE "
  execute_process(COMMAND git \"--git-dir=${CMAKE_SOURCE_DIR}/.git\" \"--work-tree=${CMAKE_SOURCE_DIR}\"
      describe --always --abbrev=12 --dirty --exclude=*
    OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0)
    file(WRITE \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/phasescope/revision \"\${revision}\\n\")
  endif()
")

# The program writes them itself.
install(CODE [[
  set(pages
    "--man>share/man/man1/phasescope.1"
    "--completion bash>share/bash-completion/completions/phasescope"
    "--completion zsh>share/zsh/vendor-completions/_phasescope"
    "--completion fish>share/fish/vendor_completions.d/phasescope.fish")
  foreach(page ${pages})
    string(REPLACE ">" ";" page "${page}")
    list(GET page 0 words)
    list(GET page 1 file)
    separate_arguments(words)
    set(file $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${file})
    get_filename_component(folder ${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    execute_process(COMMAND $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/phasescope ${words}
      OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
]])

set(CPACK_PACKAGE_NAME phasescope)
set(CPACK_PACKAGE_VENDOR Phasescope)
set(CPACK_PACKAGE_CONTACT "Phasescope <phasescope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "oscilloscope for the attention of transformers")
set(CPACK_GENERATOR DEB TXZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME phasescope-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# LibTorch's own libraries, and the CUDA runtime, are of no package that this one depends on.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${private_libraries})
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, librsvg2-2, libcairo2, fonts-inter, fonts-jetbrains-mono")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libgl1")
include(CPack)
