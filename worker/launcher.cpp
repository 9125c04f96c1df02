// phasescope-worker as it is installed: finds LibTorch, which is no part of the package, and
// becomes the worker, lib/phasescope/phasescope-worker beside the folder of this program.
//
// LibTorch is, the first that is there: the folder that PHASESCOPE_TORCH names, the folder torch in
// lib/phasescope, or the module torch of the Python beside this program or on the PATH.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kUnavailable = 3, kBroken = 4;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool holds_torch(const fs::path& folder) {
  std::error_code error;
  return !folder.empty() && fs::is_regular_file(folder / "lib" / "libtorch_cpu.so", error);
}

// "2.11.0" of a torch folder's version.py, "" where it says none.
std::string version_of(const fs::path& folder) {
  std::ifstream file(folder / "version.py");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("__version__")) continue;
    const auto begin = line.find_first_of("0123456789");
    if (begin == std::string::npos) continue;
    return line.substr(begin, line.find_first_not_of("0123456789.", begin) - begin);
  }
  return "";
}

// The interface of its C++ libraries is that of one minor version.
std::string minor_of(const std::string& version) {
  const auto first = version.find('.');
  const auto second = first == std::string::npos ? first : version.find('.', first + 1);
  return version.substr(0, second);
}

// A path as one word of a shell.
std::string quoted(const fs::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// What a Python says about its torch; it is not imported, which would take seconds. Python would
// look into the folder in which it is started first: whoever looks at a model that was downloaded
// may stand beside a folder "torch" of anybody's, whose libraries would be run.
fs::path torch_of(const std::string& python) {
  const std::string command = python +
                              " -c \"import sys; sys.path = [p for p in sys.path if p]; "
                              "import importlib.util as u; s = u.find_spec('torch'); "
                              "print(s.submodule_search_locations[0] if s else '')\" 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string said;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  pclose(pipe);
  while (!said.empty() && (said.back() == '\n' || said.back() == '\r')) said.pop_back();
  return said;
}

int refuse(const std::string& sentence) {
  std::fprintf(stderr, "phasescope: %s\n", sentence.c_str());
  return kUnavailable;
}

fs::path find_torch(const fs::path& prefix) {
  if (const fs::path own = prefix / "lib" / "phasescope" / "torch"; holds_torch(own)) return own;
  std::error_code error;
  const fs::path beside = prefix / "bin" / "python3";
  if (fs::exists(beside, error)) {
    const fs::path found = torch_of(quoted(beside));
    if (holds_torch(found)) return found;
  }
  const fs::path found = torch_of("python3");
  return holds_torch(found) ? found : fs::path();
}

void prepend_library_path(const fs::path& folder) {
  const std::string before = environment("LD_LIBRARY_PATH");
  const std::string path = folder.string() + (before.empty() ? "" : ":" + before);
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
}

}  // namespace

int main(int, char** argv) {
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  const fs::path worker = prefix / "lib" / "phasescope" / "phasescope-worker";
  const fs::path asked = environment("PHASESCOPE_TORCH");
  if (!asked.empty() && !holds_torch(asked)) {
    return refuse("PHASESCOPE_TORCH is " + asked.string() + ", which holds no lib/libtorch_cpu.so");
  }
  const fs::path torch = asked.empty() ? find_torch(prefix) : asked;
  if (torch.empty()) {
    return refuse("the worker needs LibTorch " PHASESCOPE_TORCH_VERSION
                  ": pip install torch==" PHASESCOPE_TORCH_VERSION
                  " in an environment of python3 -m venv, or name the folder that holds "
                  "lib/libtorch_cpu.so with PHASESCOPE_TORCH");
  }
  const std::string version = version_of(torch), wanted = PHASESCOPE_TORCH_VERSION;
  if (!version.empty() && minor_of(version) != minor_of(wanted)) {
    return refuse("the worker needs LibTorch " + wanted + ", and " + torch.string() + " is " +
                  version + "; name another one with PHASESCOPE_TORCH");
  }
  // The CUDA runtime lies beside LibTorch where pip has put both; the worker's own kernels ask for
  // it too, and what they ask for is not looked for where LibTorch looks. Where a LibTorch for CPUs
  // alone brings none, they have the package's.
  prepend_library_path(worker.parent_path());
  prepend_library_path(torch / ".." / "nvidia" / "cu13" / "lib");
  prepend_library_path(torch / "lib");
  const fs::path assets = prefix / "share" / "phasescope";
  setenv("PHASESCOPE_ASSETS", assets.c_str(), 0);
  execv(worker.c_str(), argv);
  std::fprintf(stderr, "phasescope: %s cannot be started\n", worker.c_str());
  return kBroken;
}
