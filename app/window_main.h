#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "protocol/messages/bench.h"

namespace phasescope::app {

struct WindowOptions {
  std::vector<std::string> models;            // opened instead of the session's
  std::string text_file;                      // read instead of the session's text
  std::filesystem::path session;              // empty: the user's own, kept between runs
  std::string remote;                         // host whose worker is used, over ssh
  std::vector<std::string> worker_arguments;  // --device, --threads
  // Draws without any display, saves, leaves: a .png, or a folder for one of every view.
  std::filesystem::path screenshot;
  int frames = 3;                     // drawn after the last answer, before the screenshot
  std::vector<std::string> commands;  // run one after the other before the screenshot
  std::filesystem::path record;       // asks what the first session asks, keeps the answers
  std::string theme;                  // "light", "dark"; empty: the session's
  int width = 1600, height = 1000;
  bool quiet = false;     // says nothing while a screenshot waits
  double patience = 600;  // seconds that a screenshot waits for answers
};

// Opens the window and returns when it is closed, with an exit status. Throws formats::Error where
// no window can be opened or an input cannot be read.
int run_window(const WindowOptions& options);

// `bench window`: first_frame (s, from the start of the process to the first frame shown) and
// frame_own_p99 (ms, the program's own processor time of a frame apart from rasterising) with one
// model of 1024 heads at rest. With eight such models, made up, that read 4,096 tokens, while they
// come and for a minute of sorting, searching, panning, zooming and clicking:
// wide.frame_own_p99 (ms, of frames in which nothing new is to be made), wide.revision_max (ms, the
// longest of those in which the session or an answer has changed),
// wide.map_click (ms, from a click on a head to its map on the screen while all heads are being
// measured), wide.answers_before_map (others that views took between the frame of the click and
// that of its map), wide.memory_growth (MB). With the worker, where it is there: zoom_4k and
// zoom_32k (ms, from a zoom to the sharp map of a bundled model at so many tokens). Call it first
// thing in the process, or first_frame counts what came before.
protocol::BenchResult bench_window(int frames = 300);

}  // namespace phasescope::app
