#pragma once
// The worker itself.
#include <string>
#include <vector>

#include "protocol/json_form.h"

namespace phasescope::protocol {

// Versions, devices, threads: an object of facts.
struct WorkerInfoRequest {
  static constexpr const char* method = "worker.info";
  static constexpr const char* verb = "";
  template <class V>
  void fields(V&) {}
};

// What is in a folder of the worker's machine, for who chooses a model there: a FolderResult.
struct FolderRequest {
  static constexpr const char* method = "worker.folder";
  static constexpr const char* verb = "";
  std::string path;
  template <class V>
  void fields(V& v) {
    v("path", path, About{.help = "the folder (default: the one that the worker stands in)"});
  }
};

struct FolderEntry {
  std::string name;
  bool folder = false;
  template <class V>
  void fields(V& v) {
    v("name", name), v("folder", folder);
  }
};

struct FolderResult {
  std::string path, above;           // absolute; above: the folder that it is in
  std::vector<FolderEntry> entries;  // folders first; hidden ones are left out
  template <class V>
  void fields(V& v) {
    v("path", path), v("above", above), v("entries", entries);
  }
};

// Does nothing, and can be cancelled: {"slept"}.
struct SleepRequest {
  static constexpr const char* method = "worker.sleep";
  static constexpr const char* verb = "";
  double seconds = 1;
  template <class V>
  void fields(V& v) {
    v("seconds", seconds, About{.help = "how long", .low = 0, .high = 1e6});
  }
};

}  // namespace phasescope::protocol
