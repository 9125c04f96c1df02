#include "training/jobs/slurm_array.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>

#include "formats/error.h"
#include "formats/json.h"
#include "protocol/shell_word.h"
#include "protocol/spawn.h"
#include "training/jobs/job.h"
#include "training/jobs/job_folder.h"

namespace phasescope::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kFolder = "slurm", *kCells = "cells.txt", *kScript = "array.sh",
                     *kArray = "array.json", *kErrors = "sbatch.txt";
constexpr int kNoSuchProgram = 127;  // of a shell

// "0-2,5": element numbers that rise.
std::string ranges_of(const std::vector<std::int64_t>& elements) {
  std::string words;
  for (std::size_t n = 0; n < elements.size();) {
    std::size_t end = n;
    while (end + 1 < elements.size() && elements[end + 1] == elements[end] + 1) ++end;
    words += (words.empty() ? "" : ",") + std::to_string(elements[n]);
    if (end > n) words += "-" + std::to_string(elements[end]);
    n = end + 1;
  }
  return words;
}

void require_one_line(const std::string& text) {
  if (text.find_first_of("\n\r") == std::string::npos) return;
  throw formats::bad_usage("an option or a path for Slurm is one line", text);
}

// What a program of Slurm's prints.
protocol::FilterResult said_by(const std::vector<std::string>& words) {
  try {
    return protocol::run_filter(words, "");
  } catch (const std::system_error& error) {
    throw formats::bad_usage(words.front() + " cannot be run: " + error.code().message(),
                             words.front(), "give the command where Slurm is installed");
  }
}

std::string without_last_line_end(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

// The number of the array. Reasons for a refusal stand on sbatch's standard error.
std::string submitted(formats::FileSystem& files, const fs::path& folder) {
  const fs::path script = folder / kScript, errors = folder / kErrors;
  const auto said = said_by({"/bin/sh", "-c", R"(exec "$@" 2>"$0")", errors.string(), "sbatch",
                             "--parsable", script.string()});
  std::string id = said.output.substr(0, said.output.find_first_of(";\n"));  // "123;cluster"
  if (said.end.exit_status == 0 && !id.empty()) return id;
  const std::string words = without_last_line_end(files.read(errors) + said.output);
  if (said.end.exit_status == kNoSuchProgram) {
    throw formats::bad_usage("sbatch cannot be run: " + words, "sbatch",
                             "give the command where Slurm is installed");
  }
  throw formats::bad_input("sbatch " + protocol::describe(said.end) + ": " + words, script.string(),
                           "the script can be handed to sbatch by hand too");
}

// "123_4" -> 4; -1 for anything else.
std::int64_t element_of(const std::string& word) {
  const std::size_t line = word.rfind('_');
  if (line == std::string::npos) return -1;
  std::int64_t element = -1;
  const char *begin = word.data() + line + 1, *end = word.data() + word.size();
  const auto read = std::from_chars(begin, end, element);
  return read.ec == std::errc() && read.ptr == end ? element : -1;
}

std::string submitted_id(const fs::path& folder) {
  const fs::path file = folder / kFolder / kArray;
  if (!fs::exists(file)) return "";
  return formats::json_from_file(file).value("id", "");
}

fs::path own_program(const fs::path& program) {
  std::error_code error;
  const fs::path link = fs::read_symlink(program, error);
  return error ? fs::absolute(program) : link;
}

}  // namespace

std::string array_script(const SlurmArray& array, const std::vector<std::int64_t>& elements) {
  const fs::path folder = fs::absolute(array.folder / kFolder).lexically_normal();
  require_one_line(folder.string());
  std::ostringstream script;
  script << "#!/bin/bash\n"
         << "#SBATCH --job-name=phasescope\n"
         << "#SBATCH --array=" << ranges_of(elements) << "%" << array.at_once << "\n"
         << "#SBATCH --output=" << (folder / "%A_%a.log").string() << "\n"
         << "#SBATCH --cpus-per-task=" << array.threads << "\n"
         << "#SBATCH --requeue\n"
         << "#SBATCH --signal=B:TERM@60\n";
  for (const std::string& option : array.options) {
    require_one_line(option);
    script << "#SBATCH " << option << "\n";
  }
  script
      << "# An element is a line of cells.txt: a job's folder, and its eval where it is trained.\n"
      << "cell=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" "
      << protocol::shell_word((folder / kCells).string()) << ")\n"
      << "# A signal is passed on; the job then saves and leaves, and `wait` is asked again.\n"
      << "run() {\n"
      << "  " << protocol::shell_word(own_program(array.program).string()) << " " << kJobArgument
      << " \"$1\" >>\"$1/" << job_file::log << "\" 2>&1 &\n"
      << "  child=$!\n"
      << "  trap 'kill -TERM \"$child\"' TERM\n"
      << "  wait \"$child\"; status=$?\n"
      << "  while kill -0 \"$child\" 2>/dev/null; do wait \"$child\"; status=$?; done\n"
      << "  return $status\n"
      << "}\n"
      << "run \"$cell\" || exit\n"
      << "if [ -f \"$cell/eval/" << job_file::config << "\" ] && [ ! -f \"$cell/eval/"
      << job_file::result << "\" ]; then run \"$cell/eval\"; fi\n";
  return script.str();
}

SlurmQueue array_queue(const fs::path& folder) {
  SlurmQueue queue{.id = submitted_id(folder), .states = {}};
  if (queue.id.empty()) return queue;
  // Asked for an array that is gone, squeue leaves with an error and prints nothing.
  const auto said =
      said_by({"squeue", "--noheader", "--array", "--jobs=" + queue.id, "--format=%i %T"});
  std::istringstream lines(said.output);
  for (std::string element, state; lines >> element >> state;) {
    if (element_of(element) >= 0) queue.states[element_of(element)] = state;
  }
  return queue;
}

SlurmQueue submit_array(formats::FileSystem& files, const SlurmArray& array,
                        const std::vector<std::int64_t>& elements) {
  SlurmQueue queue = array_queue(array.folder);
  if (!queue.states.empty() || elements.empty()) return queue;
  const fs::path folder = fs::absolute(array.folder / kFolder).lexically_normal();
  formats::make_directories(files, folder);
  std::string cells;
  for (const fs::path& cell : array.cells) {
    require_one_line(cell.string());
    cells += fs::absolute(cell).lexically_normal().string() + "\n";
  }
  formats::write_file_atomically(files, folder / kCells, cells);
  formats::write_file_atomically(files, folder / kScript, array_script(array, elements));
  const std::string id = submitted(files, folder);
  formats::write_file_atomically(files, folder / kArray,
                                 json{{"id", id}, {"elements", elements}}.dump(1) + "\n");
  return array_queue(array.folder);
}

}  // namespace phasescope::training
