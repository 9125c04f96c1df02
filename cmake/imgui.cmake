# Dear ImGui, ImPlot, GLFW and, for tests only, ImGui's test engine, built from the unpacked source
# archive of imgui-bundle. Targets: imgui, implot, glfw, glad_gl, stb_headers, file_dialogs, imgui_tested.

set(PHASESCOPE_IMGUI_BUNDLE_DIR "${CMAKE_SOURCE_DIR}/.deps/imgui-bundle" CACHE PATH
  "Unpacked source archive of imgui-bundle 1.92.900 (holds external/)")
set(bundle ${PHASESCOPE_IMGUI_BUNDLE_DIR}/external)
set(imgui_dir ${bundle}/hello_imgui/hello_imgui/external/imgui)
set(glfw_dir ${bundle}/glfw/glfw)
set(test_engine_dir ${bundle}/imgui_test_engine/imgui_test_engine/imgui_test_engine)
if(NOT EXISTS ${imgui_dir}/imgui.cpp)
  message(FATAL_ERROR "Dear ImGui's sources are not in ${PHASESCOPE_IMGUI_BUNDLE_DIR}: run "
    "./dev setup, point PHASESCOPE_IMGUI_BUNDLE_DIR at an unpacked imgui-bundle 1.92.900, or "
    "configure with -DPHASESCOPE_WINDOW=OFF")
endif()

# GLFW chooses X11, Wayland or its null platform when the program runs.
set(GLFW_BUILD_DOCS OFF CACHE BOOL "" FORCE)
set(GLFW_BUILD_TESTS OFF CACHE BOOL "" FORCE)
set(GLFW_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
set(GLFW_INSTALL OFF CACHE BOOL "" FORCE)
add_subdirectory(${glfw_dir} ${CMAKE_BINARY_DIR}/glfw EXCLUDE_FROM_ALL)

add_library(stb_headers INTERFACE)
target_include_directories(stb_headers SYSTEM INTERFACE
  ${glfw_dir}/deps ${bundle}/hello_imgui/hello_imgui/external/stb_hello_imgui)

add_library(file_dialogs INTERFACE)
target_include_directories(file_dialogs SYSTEM INTERFACE
  ${bundle}/portable_file_dialogs/portable_file_dialogs)

# One loader for every platform: OSMesa has no library of its own that ImGui's loader would find.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/glad/glad_gl.c
  CONTENT "#define GLAD_GL_IMPLEMENTATION\n#include <glad/gl.h>\n")
add_library(glad_gl STATIC ${CMAKE_BINARY_DIR}/glad/glad_gl.c)
target_include_directories(glad_gl SYSTEM PUBLIC ${glfw_dir}/deps)

find_package(Freetype REQUIRED)
find_package(Threads REQUIRED)

# phasescope_imgui(target): the sources of Dear ImGui with our configuration.
function(phasescope_imgui target)
  add_library(${target} STATIC
    ${imgui_dir}/imgui.cpp ${imgui_dir}/imgui_draw.cpp ${imgui_dir}/imgui_tables.cpp
    ${imgui_dir}/imgui_widgets.cpp ${imgui_dir}/misc/freetype/imgui_freetype.cpp
    ${imgui_dir}/misc/cpp/imgui_stdlib.cpp
    ${imgui_dir}/backends/imgui_impl_glfw.cpp ${imgui_dir}/backends/imgui_impl_opengl3.cpp)
  target_include_directories(${target} SYSTEM PUBLIC ${imgui_dir} ${imgui_dir}/backends)
  target_include_directories(${target} PRIVATE ${imgui_dir}/misc/freetype)
  target_compile_definitions(${target} PUBLIC
    IMGUI_USER_CONFIG="${CMAKE_SOURCE_DIR}/widgets/imgui_config.h"
    IMGUI_IMPL_OPENGL_LOADER_CUSTOM)
  target_compile_options(${target} PRIVATE -w)
  phasescope_optimise(${target} -O1)
  target_link_libraries(${target} PUBLIC glfw glad_gl PRIVATE Freetype::Freetype)
endfunction()

set_source_files_properties(${imgui_dir}/backends/imgui_impl_opengl3.cpp
  PROPERTIES COMPILE_OPTIONS "-include;glad/gl.h")

phasescope_imgui(imgui)

# The test engine hooks into Dear ImGui itself, so tests link a second build of it. Its licence is
# free for open-source projects but not MIT: nothing that is shipped links this target.
if(PHASESCOPE_TESTS)
  phasescope_imgui(imgui_tested)
  set_target_properties(imgui_tested PROPERTIES EXCLUDE_FROM_ALL ON)
  target_sources(imgui_tested PRIVATE
    ${test_engine_dir}/imgui_capture_tool.cpp ${test_engine_dir}/imgui_te_context.cpp
    ${test_engine_dir}/imgui_te_coroutine.cpp ${test_engine_dir}/imgui_te_engine.cpp
    ${test_engine_dir}/imgui_te_exporters.cpp ${test_engine_dir}/imgui_te_perftool.cpp
    ${test_engine_dir}/imgui_te_ui.cpp ${test_engine_dir}/imgui_te_utils.cpp)
  target_include_directories(imgui_tested SYSTEM PUBLIC ${test_engine_dir})
  target_compile_definitions(imgui_tested PUBLIC IMGUI_ENABLE_TEST_ENGINE
    IMGUI_TEST_ENGINE_ENABLE_COROUTINE_STDTHREAD_IMPL=1 IMGUI_TEST_ENGINE_ENABLE_CAPTURE=0)
  target_link_libraries(imgui_tested PUBLIC Threads::Threads)
endif()

add_library(implot STATIC ${bundle}/implot/implot/implot.cpp
  ${bundle}/implot/implot/implot_items.cpp)
target_include_directories(implot SYSTEM PUBLIC ${bundle}/implot/implot ${imgui_dir})
target_compile_definitions(implot
  PUBLIC IMPLOT_CUSTOM_NUMERIC_TYPES=\(float\)\(double\)
  PRIVATE IMGUI_USER_CONFIG="${CMAKE_SOURCE_DIR}/widgets/imgui_config.h")
target_compile_options(implot PRIVATE -w)
phasescope_optimise(implot -O1)
