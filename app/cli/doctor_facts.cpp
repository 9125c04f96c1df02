#include "app/cli/doctor_facts.h"

#include <gnu/libc-version.h>
#include <imgui.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "app/cli/output.h"
#include "app/window/gl_window.h"
#include "app/window/session.h"
#include "app/window/session_file.h"
#include "formats/error.h"
#include "protocol/client.h"

namespace phasescope::app {
namespace {

namespace fs = std::filesystem;

// A limit at or above it is none: version 1 of control groups writes the largest number of pages.
constexpr std::uint64_t kNoLimit = std::uint64_t(1) << 60;

std::string file_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_line(const fs::path& path) {
  const std::string text = file_text(path);
  return text.substr(0, text.find('\n'));
}

std::string trimmed(const std::string& text, const char* of = " \t\"") {
  const auto begin = text.find_first_not_of(of);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(of) + 1 - begin);
}

// The value of the first line "KEY<separator>value".
std::string value_in(const fs::path& path, const std::string& key, char separator) {
  std::istringstream lines(file_text(path));
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(separator);
    if (at != line.npos && trimmed(line.substr(0, at)) == key) return trimmed(line.substr(at + 1));
  }
  return "";
}

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? std::optional(number) : std::nullopt;
}

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", double(bytes) / double(1 << 30));
  return text;
}

std::string or_unknown(std::string text) { return text.empty() ? "not known" : text; }

// ---- Control groups ------------------------------------------------------------------------------

// The folder of this process in each hierarchy: "" is version 2's, others are called by what they
// limit.
std::map<std::string, std::string> groups_of(const fs::path& root) {
  std::map<std::string, std::string> groups;
  std::istringstream lines(file_text(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    std::string name;
    do {
      if (!std::getline(names, name, ',')) name.clear();
      groups[name] = line.substr(second + 1);
    } while (!names.eof() && !name.empty());
  }
  return groups;
}

// The file in the group's folder and in those above it: each of them limits.
std::vector<std::string> group_lines(const fs::path& mount, const std::string& group,
                                     const std::string& file) {
  std::vector<std::string> lines;
  fs::path folder = mount / fs::path(group).relative_path();
  for (;; folder = folder.parent_path()) {
    if (std::string line = first_line(folder / file); !line.empty()) lines.push_back(line);
    if (folder == mount || folder == folder.root_path() || folder.empty()) return lines;
  }
}

std::optional<std::uint64_t> memory_limit(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::optional<std::uint64_t> least;
  const auto take = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      const auto bytes = number_in(line);  // "max" is no number
      if (bytes && *bytes < kNoLimit && (!least || *bytes < *least)) least = bytes;
    }
  };
  for (const auto& [name, group] : groups_of(root)) {
    if (name.empty()) take(group_lines(mount, group, "memory.max"));
    if (name == "memory") take(group_lines(mount / name, group, "memory.limit_in_bytes"));
  }
  return least;
}

// Processors' worth of time that the group may take.
std::optional<double> processor_limit(const fs::path& root) {
  std::optional<double> least;
  const auto groups = groups_of(root);
  const auto found = groups.find("");
  if (found == groups.end()) return least;
  for (const std::string& line : group_lines(root / "sys/fs/cgroup", found->second, "cpu.max")) {
    const auto quota = number_in(line);  // "max 100000", or "150000 100000"
    const auto period = number_in(trimmed(line.substr(std::min(line.find(' '), line.size()))));
    if (!quota || !period || *period == 0) continue;
    const double share = double(*quota) / double(*period);
    if (!least || share < *least) least = share;
  }
  return least;
}

std::string group_text(const fs::path& root) {
  const auto memory = memory_limit(root);
  const auto processors = processor_limit(root);
  if (!memory && !processors) return "no limit";
  char text[48] = "";
  if (processors) std::snprintf(text, sizeof text, "%.3g processors", *processors);
  return std::string(text) + (memory && processors ? ", " : "") +
         (memory ? gib(*memory) + " memory" : "");
}

// ---- Machine -------------------------------------------------------------------------------------

std::string processor_text(const fs::path& root) {
  std::istringstream lines(file_text(root / "proc/cpuinfo"));
  std::int64_t processors = 0;
  for (std::string line; std::getline(lines, line);) processors += line.starts_with("processor");
  cpu_set_t usable;
  const int allowed = ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
  return or_unknown(value_in(root / "proc/cpuinfo", "model name", ':')) + ", " +
         std::to_string(processors) + " processors, " + std::to_string(allowed) +
         " for this program";
}

std::string memory_text(const fs::path& root) {
  const auto kib = [&](const char* key) {
    return number_in(value_in(root / "proc/meminfo", key, ':')).value_or(0) * 1024;
  };
  return gib(kib("MemTotal")) + ", " + gib(kib("MemAvailable")) + " free";
}

Fact renderer(const std::string& what, const GlWindowOptions& options) {
  try {
    return {what, GlWindow(options).renderer()};
  } catch (const formats::Error& error) {
    return {what, error.message(), error.hint()};
  }
}

// What an installation has, or a variable of the environment names.
Fact installed(const std::string& what, const fs::path& path, const char* variable) {
  std::error_code error;
  if (fs::exists(path, error)) return {what, path.string()};
  const std::string hint = std::getenv(variable) != nullptr ? std::string(variable) + " names it"
                                                            : "install Phasescope again";
  return {what, path.string() + " is not there", hint};
}

Fact written_folder(const std::string& what, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return {what, path.string() + " (not made yet)"};
  if (::access(path.c_str(), W_OK) == 0) return {what, path.string()};
  return {what, path.string() + " cannot be written to", "look at its owner and permissions"};
}

}  // namespace

std::string version_text() {
  std::string text = "phasescope " PHASESCOPE_VERSION;
  for (const Fact& fact : program_facts()) text += "\n" + fact.what + ": " + fact.found;
  return text;
}

std::string source_revision(const fs::path& assets) {
  if (const std::string kept = first_line(assets / "revision"); !kept.empty()) return kept;
  const fs::path git = assets.parent_path() / ".git";
  const std::string head = first_line(git / "HEAD"), reference = "ref: ";
  const std::string commit =
      head.starts_with(reference) ? first_line(git / head.substr(reference.size())) : head;
  return commit.substr(0, 12);
}

std::vector<Fact> program_facts() {
  utsname system{};
  ::uname(&system);
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
#ifdef NDEBUG
  const std::string kind = "release";
#else
  const std::string kind = "debug";
#endif
  const std::string revision = source_revision(assets_folder());
  return {{"source", or_unknown(revision)},
          {"built by", compiler + ", " + kind},
          {"machine", system.machine},
          {"C library", std::string("glibc ") + gnu_get_libc_version()},
          {"Dear ImGui", IMGUI_VERSION},
          {"CLI11", CLI11_VERSION}};
}

std::vector<Fact> machine_facts(const fs::path& root) {
  return {{"system", or_unknown(value_in(root / "etc/os-release", "PRETTY_NAME", '=')) +
                         ", Linux " + or_unknown(first_line(root / "proc/sys/kernel/osrelease"))},
          {"processor", processor_text(root)},
          {"memory", memory_text(root)},
          {"control group", group_text(root)}};
}

std::vector<Fact> graphics_facts() {
  const bool display = std::getenv("DISPLAY") || std::getenv("WAYLAND_DISPLAY");
  GlWindowOptions options{.width = 64, .height = 64, .shown = false};
  std::vector<Fact> facts;
  facts.push_back(display ? renderer("display", options)
                          : Fact{"display", "neither DISPLAY nor WAYLAND_DISPLAY is set"});
  options.headless = true;
  facts.push_back(renderer("pictures without a display", options));
  facts.push_back({"PDF and PNG", can_convert_svg() ? "librsvg" : "librsvg is not there",
                   can_convert_svg() ? "" : "apt-get install librsvg2-2 libcairo2"});
  return facts;
}

std::vector<Fact> folder_facts() {
  return {
      installed("assets", assets_folder(), "PHASESCOPE_ASSETS"),
      installed("worker's program", protocol::local_worker({}).argv.front(), "PHASESCOPE_WORKER"),
      written_folder("sessions", default_session_path().parent_path())};
}

std::vector<Fact> variable_facts() {
  std::vector<Fact> facts;
  for (const char* name :
       {"PHASESCOPE_ASSETS", "PHASESCOPE_CORPUS", "PHASESCOPE_LIBRSVG", "PHASESCOPE_SIMD",
        "PHASESCOPE_TORCH", "PHASESCOPE_WORKER", "ATEN_CPU_CAPABILITY", "CUDA_VISIBLE_DEVICES",
        "MKL_CBWR", "OMP_NUM_THREADS", "XDG_SESSION_TYPE", "LIBGL_ALWAYS_SOFTWARE", "LANG"}) {
    if (const char* value = std::getenv(name)) facts.push_back({name, value});
  }
  return facts;
}

std::string without_names(std::string text, const std::string& home, const std::string& user) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  const auto replace = [&](const std::string& what, const std::string& with) {
    for (std::size_t at = 0; (at = text.find(what, at)) != text.npos;) {
      const std::size_t end = at + what.size();
      const bool whole = (at == 0 || !in_word(text[at - 1]) || what.front() == '/') &&
                         (end == text.size() || !in_word(text[end]));
      if (whole) text.replace(at, what.size(), with);
      at += whole ? with.size() : what.size();
    }
  };
  if (home.size() > 1) replace(home, "~");
  for (const std::string homes : {"/home/", "/Users/"}) {
    for (std::size_t at = 0; (at = text.find(homes, at)) != text.npos; at += homes.size()) {
      const std::size_t begin = at + homes.size();
      const std::size_t end = std::min(text.find_first_of("/ \n:,", begin), text.size());
      if (end > begin) text.replace(begin, end - begin, "USER");
    }
  }
  if (!user.empty() && user != "root") replace(user, "USER");
  return text;
}

}  // namespace phasescope::app
